"""Many files, few maps: what is read is the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logwright.errors import StalePlan
from logwright.place.mapped import MOST_MAPPED, MappedFile, MappedFiles


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}.log" for number in range(MOST_MAPPED + 3)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * (number + 1))
    return paths


def open_all(paths: list[Path]) -> list[MappedFile]:
    files = MappedFiles()
    return [files.open(path) for path in paths]


def test_few_of_many_files_hold_a_descriptor(paths: list[Path]) -> None:
    """All can be read, in any order, several times."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- names only
    opened = open_all(paths)
    for file in (*opened, *reversed(opened)):
        assert file.path.read_bytes() == file.data.tobytes()
    assert len(os.listdir("/proc/self/fd")) <= before + MOST_MAPPED  # noqa: PTH208


def test_what_is_held_stays_when_its_map_gives_way(paths: list[Path]) -> None:
    """The array lives as long as somebody has it."""
    files = MappedFiles()
    first = files.open(paths[1])
    data = first.data
    for path in paths[2:]:
        files.open(path)
    paths[1].unlink()
    assert data.tobytes() == b"\x01\x01"


def test_a_file_that_is_mapped_is_not_mapped_again(paths: list[Path]) -> None:
    """The pages of a map are found once; a file that was written since is another one."""
    files = MappedFiles()
    first = files.open(paths[1]).data
    assert first is files.open(paths[1]).data
    paths[1].write_bytes(b"other")
    assert b"other" == files.open(paths[1]).data.tobytes()


@pytest.mark.parametrize("change", ["replaced", "longer"])
def test_another_file_under_the_name_is_refused(paths: list[Path], change: str) -> None:
    """Read half by half from two files, a segment would be neither."""
    opened = open_all(paths)
    if change == "replaced":
        other = paths[0].with_suffix(".new")
        other.write_bytes(b"x")
        other.replace(paths[0])
    else:
        with paths[0].open("ab") as file:
            file.write(b"more")
    with pytest.raises(StalePlan, match="written or replaced"):
        _ = opened[0].data


def test_a_released_file_is_unmapped_before_its_memory_is_given_back(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system keeps what is mapped. The file can be read as before."""
    file, given = open_all(paths)[-1], list[tuple[int, bool]]()
    path, advise = paths[-1], os.posix_fadvise
    content = bytes(file.data)

    def note(descriptor: int, start: int, length: int, advice: int) -> None:
        assert (0, 0, os.POSIX_FADV_DONTNEED) == (start, length, advice)
        mapped = str(path) in Path("/proc/self/maps").read_text()
        given.append((os.fstat(descriptor).st_ino, mapped))
        advise(descriptor, start, length, advice)

    monkeypatch.setattr(os, "posix_fadvise", note)
    assert str(path) in Path("/proc/self/maps").read_text()
    file.release()
    assert [(path.stat().st_ino, False)] == given
    assert content == bytes(file.data)


def test_a_file_that_is_gone_can_be_released(paths: list[Path]) -> None:
    """It is a hint."""
    file = open_all(paths)[-1]
    paths[-1].unlink()
    file.release()
    assert str(paths[-1]) not in Path("/proc/self/maps").read_text()
