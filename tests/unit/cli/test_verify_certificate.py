"""``logwright verify-certificate``: the signature, and what changed since."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from logwright.erasure.certificate.keys import public_pem
from logwright.erasure.certificate.signed import signed_file
from tests.e2e.command import call, tree
from tests.unit.erasure.certificate.samples import GONE, KEY, LEFT, finding, sample
from tests.unit.erasure.certificate.samples import small_directory as small
from tests.unit.test_extras import COMMAND, run_without


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    """A certificate, its public key and its directory."""
    root = small(tmp_path / "logs")
    (tmp_path / "c.json").write_bytes(signed_file(sample(root, finding()), KEY))
    (tmp_path / "key.pub").write_bytes(public_pem(KEY.public_key()))
    return root


def words(root: Path) -> tuple[Path | str, ...]:
    return (root.parent / "c.json", "--public-key", root.parent / "key.pub")


def test_nothing_changed(root: Path) -> None:
    """Status 0; what it says, in both forms; nothing is written."""
    before = tree(root)
    answer = call("verify-certificate", *words(root), root)
    assert 0 == answer.status, answer.err
    assert "The signature is right" in answer.out
    assert "3 files, 11 B, all as they were." in answer.out
    first, second = call("verify-certificate", *words(root), root, "--output", "json").lines
    assert {"gone": 1, "in time": 1} == first["requests"]
    assert (3, [], []) == (second["same"], second["added"], second["altered"])
    assert before == tree(root)
    assert 0 == call("verify-certificate", *words(root)).status


def test_what_changed(root: Path) -> None:
    """Status 6; by group."""
    (root / "t-0/.logwright/purge").unlink()
    (root / "meta.properties").write_text("x")
    (root / "t-0/new").touch()
    (root / "t-0/zelda").symlink_to("x")
    answer = call("verify-certificate", *words(root), root)
    assert 6 == answer.status
    for line in (
        "1 added, 1 removed, 1 altered, 1 as they were.",
        "added: t-0/new",
        "removed: t-0/.logwright/purge",
        "altered: meta.properties",
        "not read: t-0/zelda: a symbolic link",
    ):
        assert line in answer.out
    (_, changes) = call("verify-certificate", *words(root), root, "--output", "json").lines
    assert (["t-0/new"], ["t-0/.logwright/purge"], ["meta.properties"]) == (
        changes["added"],
        changes["removed"],
        changes["altered"],
    )


def test_many_changes(root: Path) -> None:
    """Text has the first of each group and the number of the others; JSON all."""
    for number in range(30):
        (root / f"new-{number:02d}").touch()
    assert "added: and 10 more" in call("verify-certificate", *words(root), root).out
    (_, changes) = call("verify-certificate", *words(root), root, "--output", "json").lines
    assert 30 == len(changes["added"])


def test_an_altered_certificate(root: Path) -> None:
    """Status 3, before anything that it says is shown."""
    path = root.parent / "c.json"
    path.write_bytes(path.read_bytes().replace(GONE.encode(), LEFT.encode(), 1))
    answer = call("verify-certificate", *words(root), root)
    assert (3, "") == (answer.status, answer.out)
    assert "does not fit" in answer.err


def test_directories_as_the_certificate_has_them(root: Path) -> None:
    """One for each, or none."""
    answer = call("verify-certificate", *words(root), root, root)
    assert 2 == answer.status
    assert "has 1 directories, 2 are given" in answer.err


def test_sums(root: Path, tmp_path: Path) -> None:
    """The manifest of the signed file, for `sha256sum --check`."""
    answer = call("verify-certificate", *words(root), "--sums", tmp_path / "sums")
    assert 0 == answer.status
    check = ["/bin/sh", "-c", "sha256sum --check --strict ../sums"]
    assert 0 == subprocess.run(check, cwd=root, check=False).returncode
    (root / "meta.properties").write_text("x")
    assert 1 == subprocess.run(check, cwd=root, check=False).returncode
    answer = call("verify-certificate", *words(root), "--sums", tmp_path / "s", "--directory", 2)
    assert 2 == answer.status


def test_without_the_library(root: Path) -> None:
    """The extra is named."""
    done = run_without(["cryptography"], COMMAND, "verify-certificate", *words(root))
    assert 5 == done.returncode
    assert "pip install 'logwright[erasure]'" in done.stderr
