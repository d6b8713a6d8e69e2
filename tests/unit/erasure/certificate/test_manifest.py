"""Every file, once, as it is."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.erasure.certificate.manifest import (
    digest_of,
    hash_files,
    require_same,
)
from logwright.erasure.certificate.sums import sums_of
from logwright.errors import StalePlan
from logwright.log.tree import list_tree
from tests.unit.erasure.certificate.samples import sample, small_directory


def test_every_file_is_seen(tmp_path: Path) -> None:
    """Hidden ones and those in directories of directories too, with the digest of other code."""
    root = small_directory(tmp_path / "logs")
    (root / "large").write_bytes(os.urandom(3 * 1024 * 1024 + 17))
    hashed = hash_files(list_tree(root))
    wanted = {
        str(path.relative_to(root)): (
            path.stat().st_size,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in root.rglob("*")
        if path.is_file()
    }
    assert wanted == hashed
    assert sorted(wanted) == list(hashed)


def grow(root: Path) -> None:
    with (root / "t-0/00000000000000000000.log").open("ab") as file:
        file.write(b"more")


def rewrite(root: Path) -> None:
    """Same size, another inode, the time of the old one."""
    path = root / "t-0/00000000000000000000.log"
    status = path.stat()
    path.rename(root.parent / "old")
    path.write_bytes(b"FIRST")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def overwrite(root: Path) -> None:
    """In place, with the old time: only the change time shows it."""
    path = root / "t-0/00000000000000000000.log"
    status = path.stat()
    path.write_bytes(b"FIRST")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: list[Callable[[Path], object]] = [
    grow,
    rewrite,
    overwrite,
    lambda root: (root / "new").touch(),
    lambda root: (root / "meta.properties").unlink(),
    lambda root: (root / "link").symlink_to("x"),
    lambda root: (root / "t-0").rename(root / "t-1"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_while_it_is_searched(tmp_path: Path, change: Callable[[Path], object]) -> None:
    """A certificate is about one state: any change in between is an error."""
    root = small_directory(tmp_path / "logs")
    tree = list_tree(root)
    require_same(tree)
    change(root)
    with pytest.raises(StalePlan):
        require_same(tree)


@pytest.mark.parametrize("change", [*CHANGES[:3], *CHANGES[4:5], CHANGES[6]])
def test_a_change_before_it_is_hashed(tmp_path: Path, change: Callable[[Path], object]) -> None:
    """What is hashed is what was listed."""
    root = small_directory(tmp_path / "logs")
    tree = list_tree(root)
    change(root)
    with pytest.raises(StalePlan):
        hash_files(tree)


def test_a_link_in_place_of_a_directory(tmp_path: Path) -> None:
    """Between listing and reading: nothing is read through it."""
    root = small_directory(tmp_path / "logs")
    tree = list_tree(root)
    (root / "t-0").rename(tmp_path / "moved")
    (root / "t-0").symlink_to(tmp_path / "moved")
    with pytest.raises(StalePlan):
        hash_files(tree)


def test_one_digest(tmp_path: Path) -> None:
    """Of a file as it is now."""
    root = small_directory(tmp_path / "logs")
    wanted = hash_files(list_tree(root))["t-0/.logwright/purge"]
    assert wanted == digest_of(root, "t-0/.logwright/purge")


def test_sums_are_what_sha256sum_checks(tmp_path: Path) -> None:
    """Names with line feeds, backslashes and bytes that are not UTF-8 too."""
    root = small_directory(tmp_path / "logs")
    for name in (b"line\nfeed", b"back\\slash", b"return\r", b"not-utf8-\xff", "zwölf".encode()):
        (root / os.fsdecode(name)).write_bytes(name)
    (tmp_path / "sums").write_bytes(sums_of(sample(root), 0))
    command = ["/bin/sh", "-c", "sha256sum --check --strict --quiet ../sums"]
    assert 0 == subprocess.run(command, cwd=root, check=False).returncode
    (root / "meta.properties").write_text("x")
    done = subprocess.run(command, cwd=root, check=False, capture_output=True)
    assert 1 == done.returncode
    assert b"meta.properties: FAILED" in done.stdout
