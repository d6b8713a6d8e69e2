"""The comparison with Kafka's outcome sees every kind of difference."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures import CASES, case_dir, compare_after, copy_before, description

Damage = Callable[[Path], object]


def flip_last_byte(path: Path) -> None:
    """Change one byte and keep the modification time."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    stamp = path.stat().st_mtime_ns
    path.write_bytes(data)
    os.utime(path, ns=(stamp, stamp))


def copy_after(name: str, tmp_path: Path) -> Path:
    """What Kafka left, to be damaged."""
    copy = tmp_path / name
    shutil.copytree(case_dir(name) / "after", copy, copy_function=shutil.copy2)
    return copy


def first(directory: Path, pattern: str) -> Path:
    """The first file of a name that has any bytes."""
    return next(path for path in sorted(directory.glob(pattern)) if path.stat().st_size)


DAMAGES: dict[str, tuple[str, str, Damage]] = {
    "a byte of a log": ("log", "t-0/*.log", flip_last_byte),
    "a byte of an index": ("index", "t-0/*.index", flip_last_byte),
    "a byte of a time index": ("timeindex", "t-0/*.timeindex", flip_last_byte),
    "a byte of a transaction index": ("txnindex", "t-0/*.txnindex", flip_last_byte),
    "a byte of a snapshot": ("snapshot", "t-0/*.snapshot", flip_last_byte),
    "a byte of the epochs": ("epochs", "t-0/leader-epoch-checkpoint", flip_last_byte),
    "no log": ("files", "t-0/*.log", Path.unlink),
    "a swap file": ("files", "t-0/*.log", lambda path: path.with_suffix(".log.swap").touch()),
    "a touched log": ("time", "t-0/*.log", os.utime),
    "no cleaner checkpoint": ("checkpoint", "cleaner-offset-checkpoint", Path.unlink),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_kind_is_seen(tmp_path: Path, damage: str) -> None:
    """One damage gives differences of its kind and of no other."""
    kind, pattern, do = DAMAGES[damage]
    copy = copy_after("txn-1-mixed", tmp_path)
    do(first(copy, pattern))
    differing = compare_after("txn-1-mixed", copy)
    assert {one.split(":")[0] for one in differing} == {kind}


def test_retired_files_do_not_count(tmp_path: Path) -> None:
    """`.deleted` files wait for their delay; `.logwright` is ours."""
    copy = copy_after("basic-none", tmp_path)
    (copy / "t-0" / "00000000000000000000.log.deleted").touch()
    (copy / "t-0" / ".logwright").mkdir()
    assert compare_after("basic-none", copy) == []


@pytest.mark.oracle
def test_a_changed_value_in_a_compressed_log_is_seen(tmp_path: Path) -> None:
    """Compressed segments are compared record by record, whatever their bytes."""
    copy = copy_after("basic-lz4", tmp_path)
    source = first(case_dir("basic-lz4") / "before", "t-0/*.log")
    target = first(copy, "t-0/*.log")
    target.write_bytes(source.read_bytes())
    differing = compare_after("basic-lz4", copy)
    assert any(one.startswith("batch: ") for one in differing)


@pytest.mark.parametrize("name", CASES)
def test_what_kafka_left_has_no_difference(tmp_path: Path, name: str) -> None:
    """And the archive holds what the listing says."""
    assert compare_after(name, copy_after(name, tmp_path)) == []


@pytest.mark.parametrize(
    "name",
    [
        "basic-none",
        pytest.param("tombstones-3-exact", marks=pytest.mark.oracle),
        "compact-delete-1",
    ],
)
def test_what_was_before_differs(tmp_path: Path, name: str) -> None:
    """A cleaning that does nothing is caught."""
    assert compare_after(name, copy_before(name, tmp_path)) != []


def test_modification_times_survive_the_copy(tmp_path: Path) -> None:
    """Retention and roll fall back on them."""
    copy = copy_before("delete-time", tmp_path)
    files = description("delete-time")["files"]["before"]
    for file, facts in files.items():
        if "lastModified" in facts:
            stamp_ms = (copy / "t-0" / file).stat().st_mtime_ns // 1_000_000
            assert facts["lastModified"] == stamp_ms
