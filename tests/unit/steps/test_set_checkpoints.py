"""Entries of checkpoint files are set, and the others stay."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from logwright.errors import CorruptCheckpoint
from logwright.format.names import TopicPartition
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.set_checkpoints import set_offsets
from logwright.units import Offset

T0 = TopicPartition("t", 0)
NAME = "cleaner-offset-checkpoint"


def test_checkpoint_keeps_the_other_partitions(tmp_path: Path) -> None:
    """One entry is set, by an atomic replacement with the old file's mode."""
    path = tmp_path / NAME
    content = b"0\n2\nother 3 17\nt 0 5\n"
    path.write_bytes(content)
    path.chmod(0o640)
    with RealFileSystem(tmp_path) as fs:
        execute(set_offsets(tmp_path / NAME, content, {T0: Offset(9)}), fs)
    assert path.read_bytes() == b"0\n2\nother 3 17\nt 0 9\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [path] == list(tmp_path.iterdir())
    assert set_offsets(tmp_path / NAME, path.read_bytes(), {T0: Offset(9)}) == ()


@pytest.mark.parametrize("content", [None, b""])
def test_checkpoint_is_made(tmp_path: Path, content: bytes | None) -> None:
    """A missing file and an empty one have no entries."""
    if content is not None:
        (tmp_path / NAME).write_bytes(content)
    with RealFileSystem(tmp_path) as fs:
        execute(set_offsets(tmp_path / NAME, content, {T0: Offset(9)}), fs)
    assert (tmp_path / NAME).read_bytes() == b"0\n1\nt 0 9\n"


def test_checkpoint_steps_are_synced_in_order(tmp_path: Path) -> None:
    """Content before name, name before the end."""
    steps = set_offsets(tmp_path / NAME, None, {T0: Offset(9)})
    kinds = [type(step).__name__ for step in steps]
    assert kinds == ["WriteFile", "FsyncFile", "Rename", "FsyncDir"]


def test_malformed_checkpoint_is_refused(tmp_path: Path) -> None:
    """Entries of other partitions are not lost for being unreadable."""
    with pytest.raises(CorruptCheckpoint):
        set_offsets(tmp_path / NAME, b"0\n5\nt 0 5\n", {T0: Offset(9)})
