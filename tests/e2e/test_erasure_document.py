"""What docs/erasure.md shows a stranger is run as it stands, on real certificates; and it says of
them what the signed file and its page say.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from logwright.erasure.certificate.model import State, not_seen
from logwright.erasure.secret import load_secret
from tests.e2e.command import REPOSITORY, call
from tests.e2e.test_secrets import NOW_MS, SECRETS, plant

pytestmark = pytest.mark.e2e

DOCUMENT: Final = (REPOSITORY / "docs/erasure.md").read_text()
CHECK: Final = "### Check it without us"
PUBLIC_TOOLS: Final = (
    "openssl",
    *("sha256sum", "base64", "head", "tail", "tr", "sort", "cut", "comm"),
)
"""OpenSSL and GNU coreutils."""
ISSUER: Final = "Example Ltd, <Data> Protection"


def section(heading: str) -> str:
    """The text of a section of the document, up to the next heading."""
    return DOCUMENT.partition(f"{heading}\n")[2].partition("\n#")[0]


def blocks(heading: str) -> list[str]:
    """The commands of a section."""
    return re.findall(r"^```sh\n(.*?)^```", section(heading), re.DOTALL | re.MULTILINE)


def shell(
    script: str, directory: Path, *, tools: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run commands; `tools`: directory of the only programs that there are."""
    return subprocess.run(
        ["/bin/bash", "-c", f"set -eo pipefail\n{script}"],
        cwd=directory,
        env=None if tools is None else {"PATH": str(tools), "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(name="tools")
def _tools(tmp_path: Path) -> Path:
    """A directory with the public tools alone."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in PUBLIC_TOOLS:
        (directory / name).symlink_to(str(shutil.which(name)))
    return directory


@pytest.fixture(name="issued")
def _issued(tmp_path: Path) -> Path:
    """A certificate of a log with planted keys, made by the documented commands."""
    plant(tmp_path / "logs")
    (tmp_path / "keys.txt").write_text("".join(f"{one}\n" for one in SECRETS[:10]))
    made = shell("(umask 077; openssl rand -hex 32 > erasure.secret)", tmp_path)
    assert 0 == made.returncode, made.stderr
    assert 0 == call("certificate", "--new-key", tmp_path / "signing.pem").status
    certify(tmp_path)
    return tmp_path


def certify(place: Path, *more: str | Path) -> None:
    answer = call(
        "certificate",
        place / "logs",
        *("--keys", place / "keys.txt", "--issuer", ISSUER),
        *("--secret", place / "erasure.secret"),
        *("--signing-key", place / "signing.pem"),
        *("--out", place / "certificate.json"),
        *("--now", NOW_MS, *more),
    )
    assert 6 == answer.status, answer.err


def handed_over(issued: Path) -> Path:
    """A directory with what a stranger gets: the certificate, the public key and a copy of the
    files, of which the document's log is one.
    """
    directory = issued / "stranger"
    directory.mkdir()
    for name in ("certificate.json", "signing.pem.pub"):
        shutil.copy(issued / name, directory / name)
    shutil.copytree(issued / "logs/t-0", directory / "data/customers-0")
    return directory


def test_a_stranger_needs_public_tools_only(issued: Path, tools: Path) -> None:
    """The section's commands as they stand, with OpenSSL and coreutils and nothing else: the page
    has what they print, and each file is listed.
    """
    stranger = handed_over(issued)
    fingerprint, signature, digest, files = blocks(CHECK)
    page = (issued / "certificate.html").read_text()
    for printed in (fingerprint, digest):
        done = shell(printed, stranger, tools=tools)
        assert 0 == done.returncode, done.stderr
        assert f"<code>{done.stdout.split()[0]}</code>" in page
    checked = shell(signature, stranger, tools=tools)
    assert (0, "Signature Verified Successfully\n") == (checked.returncode, checked.stdout)
    known = shell(fingerprint, stranger, tools=tools).stdout.split()[0]
    assert known == json.loads((stranger / "signed.json").read_text())["signing_key_sha256"]
    done = shell(files, stranger, tools=tools)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert 127 == shell("python3 --version", stranger, tools=tools).returncode


@pytest.mark.parametrize("word", ['"state":"r', '"issuer":"Ex', '"not_seen":["P', '"id":"line'])
def test_a_stranger_sees_a_change_of_what_is_signed(issued: Path, tools: Path, word: str) -> None:
    """Of a state, the issuer, a limit or the id of a request: the documented commands fail."""
    stranger = handed_over(issued)
    _, signature, _, _ = blocks(CHECK)
    assert 0 == shell(signature, stranger, tools=tools).returncode
    path = stranger / "certificate.json"
    content = path.read_bytes()
    assert word.encode() in content
    path.write_bytes(content.replace(word.encode(), word[:-1].encode() + b"-", 1))
    assert 0 != shell(signature, stranger, tools=tools).returncode


def test_a_stranger_sees_that_another_key_signed(issued: Path, tools: Path) -> None:
    """With the public key from elsewhere, the certificate's own does not help."""
    stranger = handed_over(issued)
    assert 0 == call("certificate", "--new-key", issued / "other").status
    shutil.copy(issued / "other.pub", stranger / "signing.pem.pub")
    assert 0 != shell(blocks(CHECK)[1], stranger, tools=tools).returncode


def test_a_stranger_sees_another_file(issued: Path, tools: Path) -> None:
    """The checksum of a file that was changed, and of one that was not there, is printed."""
    stranger = handed_over(issued)
    _, signature, _, files = blocks(CHECK)
    assert 0 == shell(signature, stranger, tools=tools).returncode
    changed = stranger / "data/customers-0/00000000000000000000.log"
    with changed.open("ab") as file:
        file.write(b"x")
    (stranger / "data/customers-0/new").write_bytes(b"new")
    expected = {
        shell(f"sha256sum {path}", stranger).stdout.split()[0]
        for path in (changed, changed.parent / "new")
    }
    assert expected == set(shell(files, stranger, tools=tools).stdout.split())


def test_with_jq_and_python(issued: Path) -> None:
    """Requests, files and the HMAC of a key."""
    requests, digest = blocks("#### With jq and Python")
    assert 0 == shell(blocks(CHECK)[1], issued).returncode
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
    with (issued / "logs/t-0/00000000000000000000.log").open("ab") as file:
        file.write(b"x")
    assert "00000000000000000000.log: FAILED" in shell(check, issued).stdout


def signed(issued: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((issued / "certificate.json").read_text())["certificate"]
    return value


@pytest.mark.parametrize("patterns", [False, True])
def test_page_file_and_document_say_the_same(issued: Path, *, patterns: bool) -> None:
    """Who says it, of which requests and topics, and what it does not prove, in the same words."""
    if patterns:
        (issued / "patterns").write_text("anybody\n")
        certify(issued, "--pattern", issued / "patterns")
    made, page = signed(issued), (issued / "certificate.html").read_text()
    shown = html.unescape(re.sub(r"<[^>]*>", " ", page.partition("<body>")[2]))
    assert (ISSUER, int(patterns)) == (made["issuer"], made["patterns"])
    assert f"Issued by: {ISSUER}." in shown
    assert [f"line {number}" for number in range(1, 11)] == [
        each["id"] for each in made["requests"]
    ]
    for request in made["requests"]:
        row = rf"{request['id']}\s+{re.escape(request['topics'])}\s"
        assert re.search(row, shown), request["id"]
    (limits,) = re.findall(r"What this does not prove</h2>\s*<ul>(.*?)</ul>", page, re.DOTALL)
    on_page = [html.unescape(line) for line in re.findall(r"<li>(.*?)</li>", limits)]
    assert made["not_seen"] == on_page
    documented = section("### What is proved, and what is not")
    assert [] == [line for line in made["not_seen"] if line not in documented]


def test_the_document_has_every_limit_and_no_other() -> None:
    """Of each kind of search, and each once."""
    lines = re.findall(r"^- (.*)$", section("### What is proved, and what is not"), re.MULTILINE)
    variants = [
        not_seen(running=True, tier=tier, buckets=["s3://BUCKET/x"], patterns=patterns)
        for tier in (False, True)
        for patterns in (False, True)
    ]
    known = {line for variant in variants for line in variant}
    written = [re.sub(r"^With .*?: ", "", part) for line in lines for part in _variants(line)]
    assert sorted(known) == sorted(written)


def _variants(line: str) -> list[str]:
    """The sentence of a line, and the one that is there instead with an option."""
    return re.split(r" (?=With [\[`])", line)


def test_the_document_has_every_state() -> None:
    """With its meaning."""
    table = re.findall(r"^\| ([a-z ]+) \| (.+) \|$", section("### What you get"), re.MULTILINE)
    states = {state: meaning for state, meaning in table if state != "state"}
    assert set(get_args(State)) == set(states)
    assert all(states.values())


def test_without_an_issuer(issued: Path) -> None:
    """The command, the file and the page say that it is not given."""
    answer = call(
        *("certificate", issued / "logs", "--keys", issued / "keys.txt"),
        *("--secret", issued / "erasure.secret", "--signing-key", issued / "signing.pem"),
        *("--out", issued / "certificate.json", "--now", NOW_MS),
    )
    assert "does not say who issues it" in answer.err
    assert "" == signed(issued)["issuer"]
    page = (issued / "certificate.html").read_text()
    assert "Issued by: not given." in page
    words = ("--public-key", issued / "signing.pem.pub")
    verified = call("verify-certificate", issued / "certificate.json", *words)
    assert "Issued by: not given." in verified.out


def test_the_page_has_times_and_no_spans_of_time(issued: Path) -> None:
    """A document that is filed says when, with the date, not how long from now."""
    certify(issued, "--deadline", NOW_MS + 9 * 86_400_000)
    page = (issued / "certificate.html").read_text()
    shown = re.sub(r"<[^>]*>", " ", page.partition("<body>")[2])
    assert not re.findall(r"\bin \d+ (?:d|h|min|s)\b|\d+ (?:d|h|min) before", shown)
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", shown)
