"""Logs in a bucket are maintained as those of a log directory, by several at once, and wherever it
is interrupted.
"""

from __future__ import annotations

import errno
import itertools
import json
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from logwright.batches.runtime import silent
from logwright.bucket.agreement import agree
from logwright.bucket.commit import Collect, Conflict, TooLate
from logwright.bucket.driver import drive
from logwright.bucket.store import Bucket
from logwright.bucket.stored import DATA
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.keys import KeySet
from logwright.errors import CannotUndo, CorruptLogError, DiskFull, PolicyError
from logwright.maintenance import scratch as scratch_module
from logwright.maintenance.change import applied
from logwright.maintenance.maintain import Maintenance
from logwright.maintenance.scratch import working_directory
from logwright.maintenance.scrub import scrub
from logwright.maintenance.undo import plan_undo, undo_requests
from logwright.observe import observe_unlocked
from logwright.place.named import place_of
from logwright.roll.commit import roll_partition
from logwright.roll.plan import force_roll
from logwright.units import ByteCount, DurationMs
from tests import fixtures
from tests.bucket.servers import NAME, environment, served
from tests.bucket_maintenance import breaking
from tests.bucket_maintenance.__main__ import play
from tests.bucket_maintenance.breaking import Breaking, broken
from tests.bucket_maintenance.copies import (
    T0,
    called,
    differences,
    made_old,
    put,
    run,
    version,
)
from tests.found import SECRET
from tests.log_builder import START_MS, LogBuilder

COMPACT = ("--config", "cleanup.policy=compact", "--yes", "--force")
RETAIN = ("--config", "cleanup.policy=delete", "--config", "retention.bytes=0", "--yes")
NOW = ("--now", START_MS + 1_000)
RETAINED = [
    name
    for name in fixtures.CASES
    if "retain" in fixtures.description(name)["ops"]
    and "recover" not in fixtures.description(name)["ops"]
]
CLEANED = [
    name
    for name in fixtures.CASES
    if fixtures.description(name)["ops"] == ["clean"]
    and len(fixtures.partitions(name)) == 1
    and name != "md5-collision"
    and not name.startswith("decompressed")
]
IN_CI = CLEANED[::6]


class Killed(BaseException):
    """The process ended."""


@pytest.fixture(name="log_dir")
def _log_dir(tmp_path: Path, bucket: Bucket, agreement: bytes) -> Path:
    """A log of four segments, which is in the bucket, too."""
    log_dir = a_log(tmp_path / "logs", 4)
    put(log_dir, bucket, agreement)
    return log_dir


def a_log(log_dir: Path, segments: int) -> Path:
    """Segments of ten offsets; its begin does not depend on how many there are."""
    builder = LogBuilder(log_dir)
    for base in range(0, 10 * segments, 10):
        segment = builder.segment(base)
        for offset in range(base, base + 10, 2):
            segment.batch(offset, [(f"k{offset % 3}", "v" * 50), (f"k{offset % 7}", None)])
    end = builder.end_offset
    builder.write(index_interval=1, producers=True, high_watermark=end)
    return log_dir


def job(bucket: Bucket, tmp_path: Path, operation: str = "roll", **more: Any) -> Maintenance:  # noqa: ANN401 -- of Maintenance
    """One operation."""
    return Maintenance(
        bucket=bucket,
        partition=T0,
        operation=operation,
        scratch=tmp_path / "scratch",
        limits=agree(bucket),
        now_ms=START_MS,
        **more,
    )


def roll(log_dir: Path) -> bool:
    """Roll the active segment."""
    log = observe_unlocked(log_dir, T0, high_watermark="end")
    roll_partition(log, force_roll(log, cause="forced"))
    return True


def write_again(log_dir: Path, base: int) -> bool:
    """Write a segment's file again as it is: of a log in a bucket it is another object then."""
    path = log_dir / "t-0" / f"{base:020d}.log"
    path.write_bytes(path.read_bytes())
    return True


def clean(log_dir: Path | str, *more: str | Path | int) -> None:
    run("clean", log_dir, "t-0", *COMPACT, *NOW, *more)


def operate(name: str, operation: str) -> list[str]:
    """What makes an operation do what Kafka did in this case."""
    if operation == "clean":
        return fixtures.clean_arguments(name)
    case = fixtures.description(name)
    clock = ["--now", str(case["now"]), "--high-watermark", case["highWatermark"]]
    return ["--like-kafka", "--yes", *clock, *fixtures.settings(name)]


def as_here(name: str, tmp_path: Path, bucket: Bucket) -> list[str]:
    """Do what a case says here and there; return the differences."""
    log_dir = fixtures.copy_before(name, tmp_path)
    seen = []
    for operation in fixtures.description(name)["ops"]:
        options = operate(name, operation)
        run(operation, log_dir, "t-0", *options)
        run(operation, bucket.url, "t-0", *options, "--scratch", tmp_path / "scratch")
        seen += differences(log_dir, bucket, tmp_path / "scratch", T0)
    return seen


@pytest.mark.rotates(3)
@pytest.mark.parametrize("name", [*RETAINED, *IN_CI])
def test_a_case_ends_as_in_a_log_directory(
    name: str, tmp_path: Path, bucket: Bucket, agreement: bytes
) -> None:
    """Segments, indexes, snapshots, times, offsets, epochs: no difference."""
    before = fixtures.case_dir(name) / "before"
    put(before, bucket, agreement)
    assert [] == differences(before, bucket, tmp_path / "scratch", T0)
    assert [] == as_here(name, tmp_path, bucket)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in CLEANED if name not in IN_CI])
def test_every_case_ends_as_in_a_log_directory(
    name: str, tmp_path: Path, bucket: Bucket, agreement: bytes
) -> None:
    """As above."""
    put(fixtures.case_dir(name) / "before", bucket, agreement)
    assert [] == as_here(name, tmp_path, bucket)


@pytest.mark.parametrize("seed", range(8))
def test_random_logs_end_as_in_a_log_directory(tmp_path: Path, agreement: bytes, seed: int) -> None:
    """Three random commands; nothing of the working copies is left."""
    seen, done = play(seed, tmp_path, agreement)
    assert [] == seen
    assert done


def test_a_server_of_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same over HTTP, by the documented commands."""
    with served() as port:
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        bucket = Bucket.of(f"s3://{NAME}/logs")
        log_dir = a_log(tmp_path / "logs", 3)
        put(log_dir, bucket)
        clean(log_dir)
        clean(bucket.url, "--scratch", tmp_path / "scratch")
        assert [] == differences(log_dir, bucket, tmp_path / "scratch", T0)
        cleaned = version(bucket).state
        run("retain", log_dir, "t-0", *RETAIN, *NOW)
        run("retain", bucket.url, "t-0", *RETAIN, *NOW)
        assert [] == differences(log_dir, bucket, tmp_path / "scratch", T0)
        run("undo", bucket.url, "t-0", "--yes")
        assert cleaned == version(bucket).state
        run("purge", bucket.url, "--yes")
        run("verify", bucket.url)


def test_a_dry_run_changes_nothing(bucket: Bucket, log_dir: Path) -> None:
    """It says the same as here, and makes no version."""
    for command, options in (("clean", COMPACT), ("roll", COMPACT), ("retain", RETAIN)):
        messages = [
            run(command, place, "t-0", *options, *NOW, "--dry-run", "--output", "json")
            for place in (log_dir, bucket.url)
        ]
        assert messages[0] == messages[1]
    assert 0 == version(bucket).version


def test_commands_that_are_not_for_a_bucket_say_so(bucket: Bucket, log_dir: Path) -> None:
    """Each refuses the URL by name, and changes nothing."""
    for command in ("delete", "recover"):
        refused = called(command, bucket.url, "t-0", "--yes", *NOW)
        assert 2 == refused.exit_code
        assert bucket.url in refused.stderr
    assert 0 == version(bucket).version
    del log_dir


def test_what_nobody_wrote_is_not_sent(bucket: Bucket, log_dir: Path, tmp_path: Path) -> None:
    """A roll writes the new segment; the objects of the others are the same."""
    before = version(bucket).state
    done = job(bucket, tmp_path).run(roll)
    assert done is not None
    after = version(bucket).state
    assert before.segments[:3] == after.segments[:3]
    assert 40 == after.segments[4].base_offset
    roll(log_dir)
    assert [] == differences(log_dir, bucket, tmp_path / "scratch", T0)


def test_a_segment_that_is_not_read_is_not_downloaded(
    bucket: Bucket, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retention by size reads none of those that it deletes, but for the one at the log start
    offset.
    """
    first, *others = version(bucket).state.segments[:3]
    assert first.next_offset > version(bucket).state.log_start_offset
    keys = {each.log.key for each in others}
    read = Bucket.read

    def noted(self: Bucket, key: str, start: int, end: int) -> memoryview:
        assert key not in keys
        return read(self, key, start, end)

    monkeypatch.setattr(Bucket, "read", noted)
    run("retain", bucket.url, "t-0", *RETAIN, *NOW, "--scratch", tmp_path / "scratch")
    monkeypatch.undo()
    run("retain", log_dir, "t-0", *RETAIN, *NOW)
    assert [] == differences(log_dir, bucket, tmp_path / "scratch", T0)


def test_of_two_at_once_the_later_one_plans_again(
    bucket: Bucket, log_dir: Path, tmp_path: Path
) -> None:
    """A roll meets a cleaning that was first: it begins again from its version."""
    calls = itertools.count()

    def act(copy: Path) -> bool:
        if next(calls) == 0:
            clean(bucket.url, "--scratch", tmp_path / "scratch")
        return roll(copy)

    done = job(bucket, tmp_path).run(act)
    assert (2, 2) == (next(calls), done and done.version)
    clean(log_dir)
    roll(log_dir)
    assert [] == differences(log_dir, bucket, tmp_path / "scratch", T0)


def test_others_may_be_first_only_so_often(bucket: Bucket, log_dir: Path, tmp_path: Path) -> None:
    """A writer that always meets another gives up; nothing of it is in."""
    del log_dir

    def act(copy: Path) -> bool:
        job(bucket, tmp_path, "other").run(partial(write_again, base=0))
        return write_again(copy, 0)

    with pytest.raises(Conflict):
        job(bucket, tmp_path).run(act)
    assert {"other"} == {each.id.partition("-")[0] for each in version(bucket).operations[1:]}


def test_what_was_added_meanwhile_stays(bucket: Bucket, log_dir: Path, tmp_path: Path) -> None:
    """A change of the begin, and an upload of the end, are both in; nothing is planned again."""
    calls = itertools.count()
    longer = a_log(tmp_path / "longer", 5)

    def act(copy: Path) -> bool:
        next(calls)
        put(longer, bucket)
        return write_again(copy, 0)

    job(bucket, tmp_path, "again").run(act)
    assert 1 == next(calls)
    state = version(bucket).state
    assert [0, 10, 20, 30, 40] == [each.base_offset for each in state.segments]
    assert state.segments[0].log.key.startswith(f"{DATA}again-")
    assert not state.segments[1].log.key.startswith(f"{DATA}again-")
    del log_dir


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_request(
    bucket: Bucket, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """The newest version is whole, and the old or the new one; once one is not killed, all is done,
    and a removal leaves no object that it does not name.
    """
    old = version(bucket).state
    kills, done = 0, False
    while not done:
        maintenance = job(bucket, tmp_path)
        with monkeypatch.context() as patch:
            _kill_at(patch, kills, after=after)
            done = not is_killed(maintenance)
        assert () == scrub(bucket.below("t-0")).wrong
        state = version(bucket).state
        rolled = [0, 10, 20, 30, 40] == [each.base_offset for each in state.segments]
        assert rolled or state == old
        kills += 1
    assert rolled
    assert kills > 10
    assert [] == [each.name for each in (tmp_path / "scratch").iterdir()]
    made_old(tmp_path / "bucket" / "t-0", days=30)
    drive(bucket.below("t-0"), Collect(agree(bucket)).run())
    there = {each.key for each in bucket.below("t-0").listing(DATA)}
    assert version(bucket).state.keys() == there
    del log_dir


def is_killed(maintenance: Maintenance) -> bool:
    """Roll; return whether it was killed."""
    try:
        maintenance.run(roll)
    except Killed:
        return True
    return False


def _kill_at(patch: pytest.MonkeyPatch, number: int, *, after: bool) -> None:
    """Let the n-th request end the process, before or after its effect."""
    requests = itertools.count()

    def dying(plain: Callable[..., Any]) -> Callable[..., Any]:
        def request(*given: Any, **more: Any) -> Any:  # noqa: ANN401 -- any of them
            kill = next(requests) == number
            if kill and not after:
                raise Killed
            answer = plain(*given, **more)
            if kill:
                raise Killed
            return answer

        return request

    for name in ("read", "content", "create", "put_unique", "listing"):
        patch.setattr(Bucket, name, dying(getattr(Bucket, name)))


def test_a_purge_that_is_killed(bucket: Bucket, log_dir: Path, tmp_path: Path) -> None:
    """Each version that is there has all of its objects: `verify` finds nothing; the next purge
    removes the rest.
    """
    run("clean", bucket.url, "t-0", *COMPACT, *NOW, "--scratch", tmp_path / "scratch")
    root, kills = Path(bucket.url.removeprefix("file://")), 0
    made_old(root, days=8)
    while True:
        copy = Bucket.of(f"file://{shutil.copytree(root, tmp_path / f'copy-{kills}')}")
        try:
            with broken(Breaking(random.Random(kills), dies=kills)):
                run("purge", copy.url, "--yes")
        except breaking.Killed:
            assert () == scrub(copy.below("t-0")).wrong
            run("purge", copy.url, "--yes")
        after = scrub(copy.below("t-0"))
        assert ((), (), ()) == (after.wrong, after.unnamed, after.earlier)
        if kills > 30:
            break
        kills += 1
    del log_dir


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """By the next one; what another one uses, and what is not of logwright, stays."""
    left = tmp_path / "logwright-copy-0123456789abcdef"
    left.mkdir()
    left.joinpath("file").touch()
    tmp_path.joinpath("logwright-copy-other").mkdir()
    with (
        working_directory(tmp_path, ByteCount(0)) as first,
        working_directory(tmp_path, ByteCount(0)) as second,
    ):
        assert first.is_dir()
        assert second.is_dir()
        assert not left.exists()
    assert ["logwright-copy-other"] == [each.name for each in tmp_path.iterdir()]


def test_room_is_required_before(
    bucket: Bucket, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it nothing is downloaded, and the scratch directory is named."""
    del log_dir
    free = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        scratch_module.shutil,
        "disk_usage",
        lambda _: free._replace(free=100),
    )
    with pytest.raises(DiskFull, match="scratch"):
        job(bucket, tmp_path).run(roll)


def test_a_disk_that_fills_meanwhile(
    bucket: Bucket, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a small file: it is said, the log is as it was, and nothing is left."""
    del log_dir
    before = version(bucket)

    def full(path: Path, _: bytes) -> int:
        raise OSError(errno.ENOSPC, "no space", str(path))

    maintenance = job(bucket, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(DiskFull, match="no room"):
            maintenance.run(roll)
    assert before == version(bucket)
    assert [] == list((tmp_path / "scratch").iterdir())


@pytest.mark.parametrize(("mode", "is_taken"), [(0o777, False), (0o1777, True), (0o755, True)])
def test_a_scratch_directory_that_others_may_change(
    bucket: Bucket, log_dir: Path, tmp_path: Path, mode: int, is_taken: bool
) -> None:
    """What they put in the place of a working copy would be committed."""
    del log_dir
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch").chmod(mode)
    if is_taken:
        assert job(bucket, tmp_path).run(roll) is not None
    else:
        with pytest.raises(PolicyError, match="others may change"):
            job(bucket, tmp_path).run(roll)


def test_a_damaged_object_is_named_and_nothing_is_made_of_it(
    bucket: Bucket, log_dir: Path, tmp_path: Path
) -> None:
    """By `verify`, and by who would maintain it."""
    del log_dir
    key = version(bucket).state.segments[1].log.key
    path = tmp_path / "bucket" / "t-0" / key
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptLogError, match=key):
        job(bucket, tmp_path).run(roll)
    verified = called("verify", bucket.url)
    assert 3 == verified.exit_code
    assert key in verified.stdout
    path.unlink()
    assert [(key, "the object is not there")] == [*scrub(bucket.below("t-0")).wrong]


def test_undo_restores_what_was_there(bucket: Bucket, log_dir: Path, tmp_path: Path) -> None:
    """The state before the cleaning, as a new version; a second undo has nothing to undo."""
    before = version(bucket).state
    clean(bucket.url, "--scratch", tmp_path / "scratch")
    assert before != version(bucket).state
    assert "restored" in run("undo", bucket.url, "t-0", "--yes", *NOW)
    assert (2, before) == (version(bucket).version, version(bucket).state)
    with pytest.raises(CannotUndo, match="no compaction or retention"):
        drive(bucket.below("t-0"), plan_undo(T0, agree(bucket)))
    del log_dir


def test_undo_keeps_what_was_added_since(bucket: Bucket, log_dir: Path, tmp_path: Path) -> None:
    """Retention is undone under an upload of later segments."""
    before = version(bucket).state
    run("retain", bucket.url, "t-0", "--yes", *NOW, "--delete-records-before", 20, *RETAIN[:2])
    longer = a_log(tmp_path / "longer", 5)
    shutil.rmtree(log_dir)
    for base in (0, 10):
        for path in (longer / "t-0").glob(f"{base:020d}.*"):
            path.unlink()
    put(longer, bucket)
    run("undo", bucket.url, "t-0", "--yes", *NOW)
    state = version(bucket).state
    assert [0, 10, 20, 30, 40] == [each.base_offset for each in state.segments]
    assert before.segments[:2] == state.segments[:2]


def test_undo_is_refused_after_half_the_age(bucket: Bucket, log_dir: Path, tmp_path: Path) -> None:
    """A removal could be at work on the objects."""
    clean(bucket.url, "--scratch", tmp_path / "scratch")
    plan = drive(bucket.below("t-0"), plan_undo(T0, agree(bucket)))
    made_old(tmp_path / "bucket" / "t-0", days=4)
    with pytest.raises(CannotUndo, match="half of the age"):
        drive(bucket.below("t-0"), plan_undo(T0, agree(bucket)))
    drive(bucket.below("t-0"), undo_requests(plan, agree(bucket), now_ms=START_MS))
    with pytest.raises(CannotUndo, match="no compaction or retention"):
        drive(bucket.below("t-0"), undo_requests(plan, agree(bucket), now_ms=START_MS))
    del log_dir


def test_a_purge_waits_until_a_version_was_replaced_long_ago(
    bucket: Bucket, log_dir: Path, tmp_path: Path
) -> None:
    """However old the version and its objects are: it counts when it was replaced."""
    made_old(tmp_path / "bucket" / "t-0", days=400)
    clean(bucket.url, "--scratch", tmp_path / "scratch")
    replaced = {each.log.key for each in version(bucket).state.segments}
    [purged] = map(
        json.loads, run("purge", bucket.url, "--yes", *NOW, "--output", "json").splitlines()
    )
    assert ([], [], replaced) == (
        purged["objects"],
        purged["versions"],
        replaced - {each["object"] for each in purged["pending"]},
    )
    assert min(each["dueAtMs"] for each in purged["pending"]) > time.time() * 1000
    there = {each.key for each in bucket.below("t-0").listing(DATA)}
    assert replaced < there
    made_old(tmp_path / "bucket" / "t-0", days=8)
    run("purge", bucket.url, "--yes", *NOW, "--dry-run")
    assert there == {each.key for each in bucket.below("t-0").listing(DATA)}
    run("purge", bucket.url, "--yes", *NOW)
    newest_version = version(bucket)
    assert newest_version.state.keys() == {each.key for each in bucket.below("t-0").listing(DATA)}
    assert [] == list((tmp_path / "bucket" / "t-0" / "manifest").glob("*0"))
    del log_dir


def test_a_record_in_an_earlier_version_is_not_gone(
    bucket: Bucket, log_dir: Path, tmp_path: Path
) -> None:
    """The newest version has it not any more, its object is there: a search says that it did not
    look; after the purge it has nothing to say.
    """
    keys = KeySet.of(SECRET, clear=[b"k5"])

    def unsearched() -> list[tuple[str, str]]:
        place = place_of(bucket.url)
        seen = search_log_dir(place, keys, None, patterns=(), progress=silent)
        return [(each.path, each.problem) for each in seen.unsearched]

    assert [] == unsearched()
    run("retain", bucket.url, "t-0", *RETAIN, *NOW, "--scratch", tmp_path / "scratch")
    [(path, problem)] = unsearched()
    assert "t-0" == path
    assert "earlier" in problem or "other versions" in problem
    made_old(tmp_path / "bucket" / "t-0", days=8)
    run("purge", bucket.url, "--yes", *NOW)
    assert [] == unsearched()
    del log_dir


def test_no_certificate_says_gone_before_the_purge(
    bucket: Bucket, log_dir: Path, tmp_path: Path
) -> None:
    """A key that retention removed is not proved to be gone while an object of an earlier version
    may have it. After the purge nothing is left to look at.
    """
    del log_dir
    (tmp_path / "keys").write_bytes(b"k5\n")
    (tmp_path / "secret").write_text("0123456789abcdef" * 4)
    (tmp_path / "secret").chmod(0o600)
    run("certificate", "--new-key", tmp_path / "key")
    keys_of = ("--keys", tmp_path / "keys", "--secret", tmp_path / "secret")
    signed = (*keys_of, "--signing-key", tmp_path / "key", "--output", "json", *NOW)

    def states(name: str, *more: str | Path) -> dict[str, int]:
        out = ("--out", tmp_path / name)
        answer = called("certificate", bucket.url, *signed, *out, *more).stdout
        requests: dict[str, int] = json.loads(answer.splitlines()[-1])["requests"]
        return requests

    assert {"remains": 1} == states("first")
    run("retain", bucket.url, "t-0", *RETAIN, *NOW, "--scratch", tmp_path / "scratch")
    earlier = ("--earlier", tmp_path / "first")
    assert {"not proved": 1} == states("second", *earlier)
    made_old(tmp_path / "bucket" / "t-0", days=8)
    run("purge", bucket.url, "--yes", *NOW)
    assert {"not proved", "remains"}.isdisjoint(states("third", *earlier))


def test_changes_are_refused_that_do_not_fit(bucket: Bucket, log_dir: Path) -> None:
    """Another's offsets, segments and snapshots are not overwritten."""
    state = version(bucket).state
    less = replace(state, segments=state.segments[1:])
    assert less == applied(state, less, state)
    other = replace(state, segments=state.segments[2:])
    moved = replace(state, log_start_offset=3)
    with pytest.raises(Conflict):
        applied(state, less, other)
    with pytest.raises(Conflict):
        applied(state, moved, replace(state, log_start_offset=5))
    assert 3 == applied(state, less, moved).log_start_offset
    assert () != moved.snapshots
    assert () == applied(state, replace(state, snapshots=()), moved).snapshots
    del log_dir


def test_a_bucket_that_does_not_answer(
    bucket: Bucket, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt ends at its deadline, and the last one says so; the version is the old one."""
    del log_dir
    maintenance = job(bucket, tmp_path)
    maintenance.limits = replace(maintenance.limits, deadline_ms=DurationMs(50))
    monkeypatch.setattr(Bucket, "create", lambda *_: False)
    with pytest.raises(TooLate):
        maintenance.run(roll)
    monkeypatch.undo()
    assert 0 == version(bucket).version
