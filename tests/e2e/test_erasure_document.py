"""What docs/erasure.md shows a stranger is run as it stands, on a real certificate."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from logwright.erasure.secret import load_secret
from tests.e2e.command import REPOSITORY, call
from tests.e2e.test_secrets import NOW_MS, SECRETS, plant

pytestmark = pytest.mark.e2e

BLOCKS: Final = re.findall(
    r"^```sh\n(.*?)^```", (REPOSITORY / "docs/erasure.md").read_text(), re.DOTALL | re.MULTILINE
)
WITHOUT_US: Final = [block for block in BLOCKS if "logwright " not in block]


def shell(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-c", f"set -eo pipefail\n{script}"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(name="issued")
def _issued(tmp_path: Path) -> Path:
    """A certificate of a log with planted keys, made by the documented commands."""
    plant(tmp_path / "logs")
    (tmp_path / "keys.txt").write_text("".join(f"{one}\n" for one in SECRETS[:10]))
    made = shell("(umask 077; openssl rand -hex 32 > erasure.secret)", tmp_path)
    assert 0 == made.returncode, made.stderr
    assert 0 == call("certificate", "--new-key", tmp_path / "signing.pem").status
    answer = call(
        "certificate",
        tmp_path / "logs",
        *("--keys", tmp_path / "keys.txt"),
        *("--secret", tmp_path / "erasure.secret"),
        *("--signing-key", tmp_path / "signing.pem"),
        *("--out", tmp_path / "certificate.json"),
        *("--now", NOW_MS),
    )
    assert 0 == answer.status, answer.err
    return tmp_path


def test_a_stranger_checks_a_certificate(issued: Path) -> None:
    """Each block without our program: fingerprint, signature, requests, files, HMAC."""
    fingerprint, signature, requests, digest = WITHOUT_US
    printed = shell(fingerprint, issued).stdout.split()[0]
    checked = shell(signature, issued)
    assert (0, "Signature Verified Successfully\n") == (checked.returncode, checked.stdout)
    assert printed in (issued / "signed.json").read_text()
    answer = shell(requests, issued)
    assert 0 == answer.returncode, answer.stderr
    assert 10 == answer.stdout.count('"hmac"')
    check = f"cd logs && sha256sum --check --quiet {issued / 'files.sha256'}"
    assert (0, "") == ((done := shell(check, issued)).returncode, done.stdout)
    (issued / "key").write_bytes(SECRETS[0].encode())
    place = digest.replace("/etc/logwright/erasure.secret", "erasure.secret")
    wanted = load_secret(issued / "erasure.secret").hmac(SECRETS[0].encode()).hex()
    assert wanted == shell(place, issued).stdout.strip()
    assert wanted in (issued / "signed.json").read_text()


def test_a_stranger_sees_a_change(issued: Path) -> None:
    """Of the certificate, and of a file."""
    _, signature, requests, _ = WITHOUT_US
    assert 0 == shell(f"{signature}\n{requests}", issued).returncode
    with (issued / "logs/t-0/00000000000000000000.log").open("ab") as file:
        file.write(b"x")
    check = f"cd logs && sha256sum --check --quiet {issued / 'files.sha256'}"
    assert "00000000000000000000.log: FAILED" in shell(check, issued).stdout
    path = issued / "certificate.json"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    assert 0 != shell(signature, issued).returncode


def test_the_page(issued: Path) -> None:
    """It has the digest of the signed file."""
    page = (issued / "certificate.html").read_text()
    digest = shell("sha256sum certificate.json", issued).stdout.split()[0]
    assert digest in page
