"""Every entry below a directory, once, as it is."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from logwright.errors import NotALogDir
from logwright.log.tree import MOST_LEVELS, list_tree
from tests.unit.erasure.certificate.samples import small_directory


def test_no_symlink_is_followed(tmp_path: Path) -> None:
    """Neither to a file nor to a directory; nor is anything else than a file read."""
    root = small_directory(tmp_path / "logs")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("x")
    (root / "file-link").symlink_to(tmp_path / "outside/secret")
    (root / "dir-link").symlink_to(tmp_path / "outside")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
    tree = list_tree(root)
    assert {
        "dir-link": "a symbolic link, which is not followed",
        "file-link": "a symbolic link, which is not followed",
        "pipe": "a named pipe",
        "socket": "a socket",
    } == tree.others
    assert not any("secret" in path for path in tree.files)


def test_depth_is_limited(tmp_path: Path) -> None:
    """What is deeper is said not to be read."""
    (tmp_path / "/".join("d" * (MOST_LEVELS + 2))).mkdir(parents=True)
    assert ["more than 64 levels deep"] == list(list_tree(tmp_path).others.values())


def test_not_a_directory(tmp_path: Path) -> None:
    """As all commands say it."""
    with pytest.raises(NotALogDir):
        list_tree(tmp_path / "none")


def test_hard_links(tmp_path: Path) -> None:
    """A name outside keeps the bytes; two names inside are both in the manifest."""
    root = small_directory(tmp_path / "logs")
    (root / "inside").hardlink_to(root / "meta.properties")
    assert () == list_tree(root).hard_linked
    (tmp_path / "outside").hardlink_to(root / "t-0/.logwright/purge")
    assert ("t-0/.logwright/purge",) == list_tree(root).hard_linked
