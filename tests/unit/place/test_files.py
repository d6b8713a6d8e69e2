"""The one door through which files of a log directory are opened."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.errors import UnreadableFile
from logwright.place.files import open_log_dir
from logwright.place.model import OpenDir
from tests.descriptors import opened_below


def read_some(directory: OpenDir, name: str) -> object:
    return directory.read_part(name, 0, 61)


def read_all(directory: OpenDir, name: str) -> object:
    return directory.read(name)


def read_opened(directory: OpenDir, name: str) -> object:
    with directory.open(name) as file:
        return file.whole()


@pytest.mark.parametrize("kind", ["fifo", "directory", "symlink", "socket"])
@pytest.mark.parametrize("read", [read_opened, read_all, read_some])
def test_what_took_a_files_place_after_the_listing_is_refused(
    tmp_path: Path, kind: str, read: Callable[[OpenDir, str], object]
) -> None:
    """The check is made on what was opened, not on what was listed; a FIFO does not block."""
    path = tmp_path / "00000000000000000000.log"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(tmp_path):
            bound.bind(path.name)
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with (
        open_log_dir(tmp_path) as directory,
        pytest.raises(UnreadableFile, match="expected a regular file"),
    ):
        read(directory, path.name)


def test_a_vanished_file_is_named(tmp_path: Path) -> None:
    """It was listed, and is gone when it is opened."""
    with open_log_dir(tmp_path) as directory, pytest.raises(UnreadableFile, match="vanished"):
        directory.read("gone.log")


def test_a_file_larger_than_any_of_a_log_is_refused_unread(tmp_path: Path) -> None:
    """Kafka's positions are int32; the sparse file's 2 GiB are not read."""
    path = tmp_path / "00000000000000000000.log"
    path.touch()
    os.truncate(path, 2**31)
    with open_log_dir(tmp_path) as directory, pytest.raises(UnreadableFile, match="2147483648"):
        directory.read(path.name)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """Neither after a read nor after a refusal."""
    (tmp_path / "file").write_bytes(b"content")
    os.mkfifo(tmp_path / "fifo")
    assert [] == opened_below(tmp_path)
    with open_log_dir(tmp_path) as directory:
        assert directory.read("file") == b"content"
        assert directory.read_part("file", 1, 3) == b"ont"
        for read in (read_opened, read_all, read_some):
            with pytest.raises(UnreadableFile):
                read(directory, "fifo")
        assert [tmp_path] == opened_below(tmp_path)
    assert [] == opened_below(tmp_path)
