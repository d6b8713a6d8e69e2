"""What an upload left that never made a version, and what else is in a bucket and of no log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logwright.bucket.store import Bucket
from tests.bucket_maintenance.copies import called, made_old, put, run
from tests.log_builder import START_MS, LogBuilder

NOW = ("--now", START_MS + 1_000)
LEFT = ("u-0/data/upload-00-0-0.log", "u-0/data/upload-00-0-1.index", "u-0/data/x#1")


@pytest.fixture(name="root")
def _root(tmp_path: Path, bucket: Bucket, agreement: bytes) -> Path:
    """A bucket with one log, and with what an upload of another left."""
    log = LogBuilder(tmp_path / "logs", "t-0")
    log.segment(0).batch(0, [("a", "v")])
    log.write()
    put(tmp_path / "logs", bucket, agreement)
    root = tmp_path / "bucket"
    (root / "u-0/data").mkdir(parents=True)
    for key in LEFT:
        (root / key).write_bytes(b"of an upload")
    (root / "old.log.bak").write_bytes(b"of somebody")
    return root


def left(root: Path) -> set[str]:
    return {key for key in LEFT if (root / key).exists()}


def test_it_is_removed_once_it_is_old(bucket: Bucket, root: Path) -> None:
    """Nothing younger than the age: an upload that is under way looks the same."""
    run("purge", bucket.url, "--yes", *NOW)
    assert set(LEFT) == left(root)
    made_old(root / "u-0", days=6)
    run("purge", bucket.url, "--yes", *NOW)
    assert set(LEFT) == left(root)
    (root / LEFT[0]).touch()
    made_old(root / "u-0", days=8, keep=lambda name: name == Path(LEFT[0]).name)
    shown = run("purge", bucket.url, "--dry-run", "--output", "json", *NOW)
    assert set(LEFT) == left(root)
    (line,) = [one for one in map(json.loads, shown.splitlines()) if "u-0" in str(one)]
    assert {"data/upload-00-0-1.index", "data/x#1"} == set(line["objects"])
    assert ["data/upload-00-0-0.log"] == [each["object"] for each in line["pending"]]
    run("purge", bucket.url, "--yes", *NOW)
    assert {LEFT[0]} == left(root)
    assert (root / "old.log.bak").exists()


@pytest.mark.parametrize("command", ["verify", "inspect", "purge"])
def test_it_is_named(bucket: Bucket, root: Path, command: str) -> None:
    """As no error; of one partition nothing of it is said."""
    more = ("--yes",) if command == "purge" else ()
    answer = called(command, bucket.url, *more, *NOW)
    assert 0 == answer.exit_code, answer.output
    assert "u-0: 3 objects of an upload without a version" in answer.stderr
    assert "old.log.bak: an object of no log" in answer.stderr
    assert set(LEFT) == left(root)
    answer = called(command, bucket.url, "t-0", *more, *NOW)
    assert 0 == answer.exit_code, answer.output
    assert "old.log.bak" not in answer.stderr


def test_a_clean_bucket(bucket: Bucket, root: Path) -> None:
    """Nothing is named where nothing is."""
    for key in (*LEFT, "old.log.bak"):
        (root / key).unlink()
    assert "" == called("verify", bucket.url, *NOW).stderr
