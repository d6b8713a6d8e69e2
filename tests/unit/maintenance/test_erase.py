"""Keys are erased from logs in a bucket as from a log directory, and nothing brings them back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logwright.bucket.store import Bucket
from logwright.format.names import TopicPartition
from tests.bucket_maintenance.copies import (
    T0,
    called,
    differences,
    made_old,
    put,
    run,
    version,
)
from tests.log_builder import START_MS, LogBuilder

NOW = ("--now", START_MS + 1_000)
AT_ONCE = ("--now-and-for-good", "--yes", *NOW)
OTHER = TopicPartition("u", 0)
INCOMPLETE = 9


@pytest.fixture(name="log_dir")
def _log_dir(tmp_path: Path, bucket: Bucket, agreement: bytes) -> Path:
    """A person's key in two of five segments of one log, and in none of another."""
    for name in ("t-0", "u-0"):
        builder = LogBuilder(tmp_path / "logs", name)
        for base in range(0, 50, 10):
            segment = builder.segment(base)
            for offset in range(base, base + 10, 2):
                key = "person" if name == "t-0" and offset in (12, 34) else f"k{offset % 7}"
                segment.batch(offset, [(key, "v" * 50), (f"k{offset % 3}", None)])
        builder.write(index_interval=1, producers=True, high_watermark=builder.end_offset)
    put(tmp_path / "logs", bucket, agreement)
    (tmp_path / "keys").write_bytes(b"person\n")
    return tmp_path / "logs"


def erased(place: object, tmp_path: Path, *more: str) -> tuple[int, str]:
    """Erase; the exit status and the output."""
    scratch = ("--scratch", tmp_path / "scratch")
    done = called("erase", str(place), "--keys", tmp_path / "keys", *AT_ONCE, *scratch, *more)
    assert "Without --secret" in done.stderr
    return done.exit_code, done.stdout


def test_the_segments_are_those_of_a_log_directory(
    bucket: Bucket, log_dir: Path, tmp_path: Path
) -> None:
    """Byte for byte; objects without the key are the same as before, another log has no version.
    Earlier versions have it until the purge, and the exit status says so until then.
    """
    before = version(bucket).state.segments
    status, output = erased(bucket.url, tmp_path)
    assert INCOMPLETE == status, output
    assert "other versions" in output or "earlier" in output
    assert (0, 1) == (version(bucket, OTHER).version, version(bucket).version)
    after = version(bucket).state.segments
    assert [0, 20, 40] == [one.base_offset for one in after if one in before]
    status, output = erased(log_dir, tmp_path)
    assert 0 == status, output
    assert [] == differences(log_dir, bucket, tmp_path / "scratch", T0)
    status, output = erased(bucket.url, tmp_path)
    assert INCOMPLETE == status, output
    assert "The newest version of no log has a record of these keys" in output
    made_old(tmp_path / "bucket" / "t-0", days=8)
    run("purge", bucket.url, "--yes", *NOW)
    status, output = erased(bucket.url, tmp_path)
    assert 0 == status, output
    assert 1 == version(bucket).version
    names = [path.name for path in (tmp_path / "scratch").iterdir()]
    assert [] == [name for name in names if name != "there"]


def test_a_log_without_the_key_is_not_downloaded(
    bucket: Bucket, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the search reads it: once."""
    data = {one.log.key for one in version(bucket, OTHER).state.segments}
    read: list[str] = []
    plain = Bucket.read

    def noted(self: Bucket, key: str, start: int, end: int) -> memoryview:
        if key in data:
            read.append(key)
        return plain(self, key, start, end)

    monkeypatch.setattr(Bucket, "read", noted)
    erased(bucket.url, tmp_path)
    searches = 2  # before and after
    assert len(read) <= searches * len(data)
    del log_dir


def test_a_dry_run_changes_nothing(bucket: Bucket, log_dir: Path, tmp_path: Path) -> None:
    """It says what it would do, as in a log directory."""
    there = erased(bucket.url, tmp_path, "--dry-run", "--output", "json")
    here = erased(log_dir, tmp_path, "--dry-run", "--output", "json")
    of_log = [
        [line for line in map(json.loads, output.splitlines()) if line.get("erased") is False]
        for _, output in (there, here)
    ]
    # Here the logs without the key are shown, too.
    assert [2] == [line["records"] for line in of_log[0]]
    assert of_log[0][0] in of_log[1]
    assert 0 == version(bucket).version


def test_nothing_is_undone_past_an_erasure(bucket: Bucket, log_dir: Path, tmp_path: Path) -> None:
    """Neither the erasure nor what was cleaned before: the person's records would be back."""
    clean = ("--config", "cleanup.policy=compact", "--force", "--yes", *NOW)
    scratch = ("--scratch", tmp_path / "scratch")
    run("clean", bucket.url, "t-0", *clean, *scratch)
    assert INCOMPLETE == erased(bucket.url, tmp_path, "t-0")[0]
    erased_at = version(bucket)
    refused = called("undo", bucket.url, "t-0", "--yes", *NOW)
    assert refused.exit_code != 0
    assert "an erasure came after it" in refused.output
    assert erased_at == version(bucket)
    run("retain", bucket.url, "t-0", "--config", "cleanup.policy=delete", *_SIZE, *NOW, *scratch)
    run("undo", bucket.url, "t-0", "--yes", *NOW)
    assert erased_at.state == version(bucket).state
    del log_dir


_SIZE = ("--config", "retention.bytes=0", "--yes")


def test_the_other_way_to_erase_is_refused(bucket: Bucket, log_dir: Path, tmp_path: Path) -> None:
    """Tombstones are appended where a broker is."""
    refused = called("erase", bucket.url, "--keys", tmp_path / "keys", "--yes", *NOW)
    assert 2 == refused.exit_code
    assert "--now-and-for-good" in refused.stderr
    assert 0 == version(bucket).version
    del log_dir


def test_a_damaged_object_is_said_and_the_others_are_erased(
    bucket: Bucket, log_dir: Path, tmp_path: Path
) -> None:
    """A log that cannot be read stays as it is."""
    (segment, *_) = version(bucket, OTHER).state.segments
    path = tmp_path / "bucket" / "u-0" / segment.log.key
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o600)
    path.write_bytes(content)
    status, output = erased(bucket.url, tmp_path)
    assert status not in (0, 2), output
    assert (1, 0) == (version(bucket).version, version(bucket, OTHER).version)
    assert "u-0" in output
    del log_dir
