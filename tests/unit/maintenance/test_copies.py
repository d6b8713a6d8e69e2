"""What was observed is what is sent, and no copy brings back what was erased or retained."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logwright.bucket import driver
from logwright.bucket.agreement import agree
from logwright.bucket.commit import newest
from logwright.bucket.driver import drive
from logwright.bucket.store import Bucket
from logwright.errors import LogwrightError, PreconditionError, StalePlan
from logwright.log.load import observe
from logwright.maintenance import download
from logwright.maintenance.scrub import scrub
from logwright.place.named import place_of
from logwright.upload.upload import Upload, Uploaded
from tests.bucket_maintenance.copies import T0, called, made_old, put, run, secret_in, version
from tests.log_builder import START_MS, LogBuilder

NOW = ("--now", START_MS + 1_000)
NOT_SEARCHED = 9
PERSON = b"person"
DELETE = {"cleanup.policy": "delete"}


@pytest.fixture(name="keys")
def _keys(tmp_path: Path) -> tuple[str | Path, ...]:
    """The options that name the person's key, and a secret."""
    (tmp_path / "keys").write_bytes(PERSON)
    return ("--keys", tmp_path / "keys", "--secret", secret_in(tmp_path))


@pytest.fixture(name="log_dir")
def _log_dir(tmp_path: Path) -> Path:
    """The key in the second of four segments."""
    return written(tmp_path / "logs", "person")


def written(log_dir: Path, key: str | bytes, bases: tuple[int, ...] = (0, 2, 4, 6)) -> Path:
    log = LogBuilder(log_dir)
    for base in bases:
        log.segment(base).batch(base, [(key if base == 2 else f"k{base}", "v" * 40), ("x", "y")])
    log.write(producers=True, high_watermark=log.end_offset)
    return log_dir


def erase(place: Path | str, keys: tuple[str | Path, ...], *more: str) -> int:
    """Erase the key at once."""
    words = ("--now-and-for-good", "--yes", *NOW, "--config", "cleanup.policy=compact", *more)
    return called("erase", place, *keys, *words).exit_code


def an_upload(log_dir: Path, bucket: Bucket, **more: Any) -> Upload:  # noqa: ANN401 -- of Upload
    given = {"configs": DELETE, "now_ms": START_MS, "limits": agree(bucket)} | more
    return Upload(place=log_dir, partition=T0, bucket=bucket, **given)


def objects(bucket: Bucket) -> bytes:
    """What the newest version's segments have."""
    manifest = drive(bucket.below("t-0"), newest())
    segments = () if manifest is None else manifest.state.segments
    return b"".join(
        bytes(bucket.below("t-0").read(segment.log.key, 0, segment.log.bytes))
        for segment in segments
        if segment.log.bytes
    )


def interposed(
    monkeypatch: pytest.MonkeyPatch, upload: Upload, number: int, act: Callable[[], object]
) -> tuple[Uploaded | None, int]:
    """Run an upload; before its request of a number something else happens. Return what it
    returns, None if it was refused, and how many requests it made.
    """
    made, count = driver._made, [0]
    put_unique = Bucket.put_unique

    def asked() -> None:
        count[0] += 1
        if count[0] == number:
            monkeypatch.setattr(driver, "_made", made)
            monkeypatch.setattr(Bucket, "put_unique", put_unique)
            act()

    def requested(directory: Bucket, request: Any) -> Any:  # noqa: ANN401 -- as of the driver
        asked()
        return made(directory, request)

    def sent(self: Bucket, key: str, content: Any) -> None:  # noqa: ANN401 -- as of a bucket
        asked()
        put_unique(self, key, content)

    with monkeypatch.context():
        monkeypatch.setattr(driver, "_made", requested)
        monkeypatch.setattr(Bucket, "put_unique", sent)
        try:
            return upload.run(), count[0]
        except LogwrightError:
            return None, count[0]
        finally:
            monkeypatch.setattr(driver, "_made", made)
            monkeypatch.setattr(Bucket, "put_unique", put_unique)


@pytest.mark.parametrize("has_version", [False, True])
@pytest.mark.parametrize("first", ["directory", "bucket"])
def test_an_upload_of_before_an_erasure_is_not_committed(
    tmp_path: Path,
    agreement: bytes,
    keys: tuple[str | Path, ...],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    *,
    first: str,
    has_version: bool,
) -> None:
    """Whichever place is erased first, and before whichever request of the upload: all that create
    a version, and some of those that send data. What it commits then has been observed again.
    """
    written(tmp_path / "clean", "nobody", bases=(0,))
    written(tmp_path / "person", "person")
    number, requests = 0, 1
    numbers = iter([1, 2, 3, *sorted(random.Random(seed).sample(range(4, 15), 2)), *range(15, 40)])
    while (number := next(numbers)) <= requests:
        root = tmp_path / f"{number}"
        bucket, log_dir = Bucket.of(f"file://{root}/bucket"), root / "logs"
        put(tmp_path / "clean", bucket, agreement)
        if not has_version:
            shutil.rmtree(root / "bucket" / "t-0")
        shutil.copytree(tmp_path / "person", log_dir)
        places: list[Path | str] = [log_dir, bucket.url]

        def both(places: list[Path | str] = places) -> None:
            for place in places if first == "directory" else places[::-1]:
                status = erase(place, keys)  # of a bucket without any log it is refused
                assert status in (0, 9) or (isinstance(place, str) and not has_version)

        upload = an_upload(log_dir, bucket)
        done, requests = interposed(monkeypatch, upload, number, both)
        requests = max(requests, 16)
        assert PERSON not in objects(bucket), number
        if done is not None:
            assert 8 == version(bucket).state.log_end_offset
            assert not scrub(bucket.below("t-0")).wrong
        an_upload(log_dir, bucket).run()
        assert PERSON not in objects(bucket)


def test_an_upload_brings_back_nothing_that_was_erased(
    bucket: Bucket,
    agreement: bytes,
    log_dir: Path,
    keys: tuple[str | Path, ...],
    tmp_path: Path,
) -> None:
    """It is refused until the directory is erased from, too, or the operator wants it; a downloaded
    log may be written again, and one that has only what came later.
    """
    put(log_dir, bucket, agreement)
    assert 9 == erase(bucket.url, keys)
    erased = version(bucket)
    assert (1, [8]) == (erased.erased.number, [*erased.erased.below.values()])
    refused = called("upload", log_dir, "--to", bucket.url)
    assert refused.exit_code not in (0, 9)
    assert "1 keys were erased from the log in the bucket" in refused.stderr
    assert "below offset 8" in refused.stderr
    assert erased == version(bucket)
    run("download", bucket.url, "--to", tmp_path / "restored")
    run("upload", tmp_path / "restored", "--to", bucket.url)
    assert 0 == erase(log_dir, keys)
    run("upload", log_dir, "--to", bucket.url)
    assert PERSON not in objects(bucket)
    other = written(tmp_path / "other", "person")
    assert called("upload", other, "--to", bucket.url).exit_code
    run("upload", other, "--to", bucket.url, "--bring-back-erased")
    assert PERSON in objects(bucket)
    run("upload", other, "--to", bucket.url)


def test_a_directory_without_the_key_may_be_uploaded(
    bucket: Bucket,
    agreement: bytes,
    log_dir: Path,
    keys: tuple[str | Path, ...],
    tmp_path: Path,
) -> None:
    """A search at once has shown that it is not there; and what is after the erasure is new."""
    put(log_dir, bucket, agreement)
    erase(bucket.url, keys)
    cleaned = written(tmp_path / "cleaned", "nobody")
    assert called("upload", cleaned, "--to", bucket.url).exit_code
    assert 0 == erase(cleaned, keys)
    run("upload", cleaned, "--to", bucket.url)
    later = LogBuilder(tmp_path / "later")
    later.segment(8).batch(8, [("person", "again"), ("x", "y")])
    later.write(producers=True, high_watermark=10)
    run("upload", later.log_dir, "--to", bucket.url, "--config", "cleanup.policy=delete")
    assert PERSON in objects(bucket)


def test_who_erased_bytes_has_not_erased_all_forms(
    bucket: Bucket, agreement: bytes, keys: tuple[str | Path, ...], tmp_path: Path
) -> None:
    """The bucket lost each form of the key; a directory that lost one of them may have another."""
    log_dir = written(tmp_path / "logs", '"person"')
    shutil.copytree(log_dir, tmp_path / "other")
    put(log_dir, bucket, agreement)
    decoded = (*keys, "--keys-format", "decoded")
    erase(bucket.url, decoded)
    assert PERSON not in objects(bucket)
    erase(tmp_path / "other", keys)
    assert "erased" in called("upload", tmp_path / "other", "--to", bucket.url).stderr
    assert PERSON not in objects(bucket)
    assert 0 == erase(tmp_path / "other", decoded)
    run("upload", tmp_path / "other", "--to", bucket.url)


def test_who_could_not_decode_has_not_erased_all_forms(
    bucket: Bucket, agreement: bytes, keys: tuple[str | Path, ...], tmp_path: Path
) -> None:
    """Without its schema nobody can say whether an Avro key is the person's, in segments or in what
    a cleaning kept.
    """
    log_dir = written(tmp_path / "logs", "person")
    put(log_dir, bucket, agreement)
    decoded = (*keys, "--keys-format", "decoded")
    erase(bucket.url, decoded)
    record = b"\0\0\0\0\1\x0cperson\1"
    for name, bases in (("live", (0, 2, 4, 6)), ("kept", (0, 4, 6))):
        other = written(tmp_path / name, record, bases)
        if name == "kept":
            kept = written(tmp_path / "more", record) / "t-0"
            log = f"{2:020}.log"
            shutil.copyfile(kept / log, other / "t-0" / f"{log}.deleted")
        assert NOT_SEARCHED == erase(other, decoded)
        assert "erased" in called("upload", other, "--to", bucket.url).stderr
    assert PERSON not in objects(bucket)


def test_an_erased_directory_protects_the_bucket(
    bucket: Bucket,
    agreement: bytes,
    log_dir: Path,
    keys: tuple[str | Path, ...],
    tmp_path: Path,
) -> None:
    """Its upload takes the place of all that was there: another copy of the log is refused then."""
    shutil.copytree(log_dir, tmp_path / "other")
    put(log_dir, bucket, agreement)
    assert 0 == erase(log_dir, keys)
    run("upload", log_dir, "--to", bucket.url)
    assert "erased" in called("upload", tmp_path / "other", "--to", bucket.url).stderr
    assert PERSON not in objects(bucket)


def test_an_erasure_searches_what_it_has_made(
    bucket: Bucket,
    agreement: bytes,
    log_dir: Path,
    keys: tuple[str | Path, ...],
    tmp_path: Path,
) -> None:
    """The newest version has nothing any more; those before are named, until they are purged."""
    put(log_dir, bucket, agreement)
    words = ("--now-and-for-good", "--yes", *NOW, "--config", "cleanup.policy=compact")
    done = called("erase", bucket.url, *keys, *words)
    assert "0 records of these keys remain" in done.stdout
    made_old(tmp_path / "bucket" / "t-0", days=8)
    run("purge", bucket.url, "--yes", *NOW)
    assert 0 == erase(bucket.url, keys)


def test_a_mark_that_somebody_put_into_a_bucket_is_not_believed(
    bucket: Bucket, agreement: bytes, keys: tuple[str | Path, ...], tmp_path: Path
) -> None:
    """No command writes one there: the key was never found, and not erased."""
    put(written(tmp_path / "logs", "nobody"), bucket, agreement)
    erased = written(tmp_path / "erased", "person")
    assert 0 == erase(erased, keys)
    work = tmp_path / "bucket" / "t-0" / ".logwright"
    work.mkdir()
    shutil.copy(erased / "t-0" / ".logwright" / "erased.json", work)
    for place, state in ((erased, "gone"), (bucket.url, "not found")):
        done = called("find", place, *keys, *NOW, "--output", "json")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert [state] == [row["state"] for row in rows if "state" in row]


def test_an_earlier_version_with_other_settings_is_named(
    bucket: Bucket, agreement: bytes, log_dir: Path, tmp_path: Path
) -> None:
    """It has the same files, and settings that the newest version does not show."""
    (tmp_path / "keys").write_bytes(b"nobody")
    put(log_dir, bucket, agreement)
    assert 0 == called("find", bucket.url, "--keys", tmp_path / "keys", *NOW).exit_code
    run("upload", log_dir, "--to", bucket.url, "--config", "cleanup.policy=delete")
    done = called("find", bucket.url, "--keys", tmp_path / "keys", *NOW)
    assert (NOT_SEARCHED, 1) == (done.exit_code, version(bucket).version)
    assert "1 objects of other versions were not searched" in done.stdout


def test_a_log_that_changes_is_observed_anew(
    bucket: Bucket, agreement: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A cleaning swaps its segments after the first object was sent: the version is the cleaned
    log. If it changes again and again, nothing of it is committed.
    """
    log = LogBuilder(tmp_path / "logs")
    for base in (0, 200):
        segment = log.segment(base)
        for offset in range(base, base + 200):
            segment.batch(offset, [(f"k{offset % 120}", "v" * 50)])
    log.segment(400)
    log.write(producers=True, index_interval=256, cleaner_checkpoint=0, high_watermark=400)
    written(tmp_path / "first", "x", bases=(0,))
    put(tmp_path / "first", bucket, agreement)
    shutil.rmtree(tmp_path / "bucket" / "t-0")

    def clean() -> None:
        words = ("--config", "cleanup.policy=compact", "--config", "segment.bytes=36000")
        run("clean", log.log_dir, *words, "--yes", *NOW)

    upload = an_upload(log.log_dir, bucket, configs={"cleanup.policy": "compact"})
    done, _ = interposed(monkeypatch, upload, 3, clean)
    assert done is not None
    assert not scrub(bucket.below("t-0")).wrong
    run("verify", bucket.url)
    kept = [segment.base_offset for segment in version(bucket).state.segments]
    here = observe(log.log_dir, T0, high_watermark="end")
    assert kept == [segment.base_offset for segment in here.segments]
    before = version(bucket)
    put_unique, turn = Bucket.put_unique, [0]

    def changed(self: Bucket, key: str, content: Any) -> None:  # noqa: ANN401 -- as of a bucket
        turn[0] += 1
        (log.directory / f"{400:020d}.log").write_bytes(b"")
        put_unique(self, key, content)

    (log.directory / "partition.metadata").write_text(
        "version: 0\ntopic_id: AbCdEfGhIjKlMnOpQrStUv"
    )
    (log.directory / f"{0:020d}.timeindex").write_bytes(b"\0" * 12)
    monkeypatch.setattr(Bucket, "put_unique", changed)
    with pytest.raises(StalePlan, match="changed while it was copied"):
        an_upload(log.log_dir, bucket, configs={"cleanup.policy": "compact"}).run()
    assert before == version(bucket)
    assert turn[0] >= 5


def test_what_retention_removed_in_the_bucket_stays_removed(
    bucket: Bucket, agreement: bytes, log_dir: Path
) -> None:
    """The log start offset does not fall, and the segments before it are not sent again."""
    put(log_dir, bucket, agreement)
    size = ("--config", "retention.bytes=0", "--config", "cleanup.policy=delete")
    run("retain", bucket.url, *size, "--yes", *NOW)
    retained = version(bucket).state
    assert 8 == retained.log_start_offset
    run("upload", log_dir, "--to", bucket.url, "--config", "cleanup.policy=delete")
    assert retained == version(bucket).state
    more = written(log_dir.with_name("more"), "person", bases=(0, 2, 4, 6, 8))
    run("upload", more, "--to", bucket.url, "--config", "cleanup.policy=delete")
    assert [8] == [one.base_offset for one in version(bucket).state.segments]
    assert (8, 10) == (version(bucket).state.log_start_offset, version(bucket).state.log_end_offset)


def test_an_old_entry_of_the_cleaner_drops_nothing(
    bucket: Bucket, agreement: bytes, tmp_path: Path
) -> None:
    """Kafka keeps it when a topic is not compacted any more. If the policy is not known, the entry
    counts, and what goes is said.
    """
    for name, bases in (("monday", (0, 2, 4, 6)), ("tuesday", (4, 6))):
        log = LogBuilder(tmp_path / name)
        for base in bases:
            log.segment(base).batch(base, [(f"k{base}", "v"), ("x", "y")])
        log.write(producers=True, cleaner_checkpoint=2, high_watermark=8)
    put(tmp_path / "monday", bucket, agreement)
    done = an_upload(tmp_path / "tuesday", bucket).run()
    assert (4, None, None) == (done.segments, done.missing, done.dropped)
    assert 0 == version(bucket).state.log_start_offset
    done = an_upload(tmp_path / "tuesday", bucket, configs={}).run()
    assert (2, None, (0, 3)) == (done.segments, done.missing, done.dropped)


def test_a_download_takes_no_other_log_for_its_own(
    bucket: Bucket, agreement: bytes, log_dir: Path, tmp_path: Path
) -> None:
    """One that was killed after its first directory left a future log; then something else made the
    partition. The very version is taken, whoever has written it.
    """
    put(log_dir, bucket, agreement)
    there = tmp_path / "restored"
    run("download", bucket.url, "--to", there)
    shutil.rmtree(there / "t-0")

    def killed(self: Any) -> None:  # noqa: ANN401 -- a part
        self.future.mkdir()
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(download._Work, "write", killed)
        assert called("download", bucket.url, "--to", there).exit_code
    written(there, "other")
    refused = called("download", bucket.url, "--to", there)
    assert refused.exit_code
    assert f"{there}/t-0" in refused.stderr
    shutil.rmtree(there / "t-0")
    shutil.copytree(log_dir / "t-0", there / "t-0")
    again = run("download", bucket.url, "--to", there)
    assert "0 B of" in again
    assert ["t-0"] == [path.name for path in there.iterdir() if path.name.startswith("t-0")]


def test_a_compacted_log_that_was_not_cleaned_here_takes_the_place(
    bucket: Bucket, agreement: bytes, log_dir: Path
) -> None:
    """Superseded records are in the bucket again: it is the directory's log, as it is."""
    put(log_dir, bucket, agreement)
    before = version(bucket).state
    run("clean", bucket.url, "--config", "cleanup.policy=compact", "--force", "--yes", *NOW)
    run("upload", log_dir, "--to", bucket.url, "--config", "cleanup.policy=compact")
    now = version(bucket).state
    assert [one.log.crc32c for one in before.segments] == [one.log.crc32c for one in now.segments]
    shorter = an_upload(written(log_dir.with_name("shorter"), "person", bases=(0, 2)), bucket)
    with pytest.raises(PreconditionError, match="records would be lost"):
        shorter.run()
    assert 8 == observe(place_of(bucket.url), T0, high_watermark="end").log_end_offset
