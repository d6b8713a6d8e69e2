"""Pauses and quarantine of logs in a bucket: the same as in a log directory, wherever it is."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest

from logwright.bucket.manifest import STATES
from logwright.bucket.states import state_key
from logwright.bucket.store import Bucket
from logwright.errors import Paused, UnreadableFile
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions
from logwright.place.model import Place
from logwright.place.named import place_of
from logwright.state.hold import refuse_held
from logwright.state.model import Pause
from logwright.state.store import change_state, read_state
from logwright.units import TimestampMs
from tests.bucket.proxy import LIFE_SECONDS, proxied
from tests.bucket.servers import NAME, environment, served
from tests.bucket_maintenance.breaking import Breaking, Killed, broken
from tests.bucket_maintenance.copies import T0, called, differences, made_old, put, version
from tests.fixtures import copy_before

U0: Final = TopicPartition("u", 0)
NOW: Final = 1_760_003_686_229
MINUTE: Final = 60_000
COMPACT = ("--config", "cleanup.policy=compact")
PAUSE = ("--reason", "a disk is replaced", "--owner", "ops", "--yes")
JSON = ("--output", "json")
STEPS: Final[tuple[tuple[object, ...], ...]] = (
    ("pause", "t-0", *PAUSE, "--for", "2h", "--now", NOW),
    ("pause", "u-0", *PAUSE[:2], "--owner", "b", "--yes", "--now", NOW),
    ("pause", "t-9", *PAUSE, "--now", NOW),
    ("pause", *JSON, "--now", NOW),
    ("plan", *COMPACT, "--now", NOW),
    ("clean", *COMPACT, "--yes", "--force", *JSON, "--now", NOW),
    ("roll", "--yes", "--force", *JSON, "--now", NOW),
    ("retain", "--config", "cleanup.policy=delete", "--yes", *JSON, "--now", NOW),
    ("resume", "u-0", "--owner", "nobody", "--yes", "--now", NOW),
    ("resume", "u-0", "--yes", "--now", NOW),
    ("clean", "u-0", *COMPACT, "--yes", *JSON, "--now", NOW),
    ("undo", "t-0", "--yes", "--now", NOW),
    ("undo", "u-0", "--yes", "--dry-run", "--now", NOW),
    ("pause", "u-0", *PAUSE, "--now", NOW),
    ("undo", "u-0", "--yes", "--now", NOW),
    ("resume", "u-0", "--yes", "--now", NOW),
    ("clean", "t-0", *COMPACT, "--yes", *JSON, "--now", NOW + 121 * MINUTE),
    ("pause", *JSON, "--now", NOW + 121 * MINUTE),
    ("quarantine", *JSON, "--now", NOW + 121 * MINUTE),
    ("clean", "t-0", *COMPACT, "--yes", *JSON, "--now", NOW + 122 * MINUTE),
    ("clean", "t-0", *COMPACT, "--yes", *JSON, "--now", NOW + 137 * MINUTE),
    ("quarantine", *JSON, "--now", NOW + 137 * MINUTE),
    ("quarantine", "--clear", "--yes", "--now", NOW + 137 * MINUTE),
    ("quarantine", "u-0", "--set", "looks odd", "--yes", "--now", NOW),
    ("clean", "u-0", *COMPACT, "--yes", *JSON, "--now", NOW),
    ("quarantine", "--now", NOW),
    ("clean", "u-0", *COMPACT, "--yes", "--force", *JSON, "--now", NOW),
    ("quarantine", "--now", NOW),
    ("resume", "--yes", "--now", NOW),
    ("pause", "--now", NOW),
)
"""Of `t-0` a batch is broken."""


def corrupt(log_dir: Path) -> None:
    """Break a batch of a sealed segment."""
    path = sorted((log_dir / "t-0").glob("*.log"))[1]
    content = bytearray(path.read_bytes())
    content[80] ^= 1
    path.write_bytes(bytes(content))


def two_logs(log_dir: Path) -> Path:
    """A log that cannot be cleaned, and one that can."""
    made = copy_before("basic-none", log_dir)
    other = copy_before("basic-none", log_dir / "other")
    (other / "t-0").rename(made / "u-0")
    checkpoint = made / "replication-offset-checkpoint"
    checkpoint.write_text(f"{checkpoint.read_text().replace('1', '2', 1)}u 0 500\n")
    corrupt(made)
    return made


def said(text: str, *where: str) -> list[object]:
    """What was written, without what differs: the place, seconds, the version that was made, and
    the name of a cleaning in the history.
    """
    for each in where:
        text = text.replace(each, "LOGS")
    text = text.replace("before the swap of", "before the clean of")
    lines: list[object] = []
    for line in text.splitlines():
        if re.search(r": version \d+, .* written$", line):
            continue
        lines.append(without_seconds(json.loads(line)) if line.startswith("{") else line)
    return lines


def without_seconds(value: Any) -> Any:  # noqa: ANN401 -- of JSON
    """A value of JSON without how long something took."""
    if isinstance(value, dict):
        named = {name: without_seconds(each) for name, each in value.items()}
        return {name: each for name, each in named.items() if not name.endswith("Seconds")}
    return [without_seconds(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(name="place", params=["file", pytest.param("moto", marks=pytest.mark.rotates(4))])
def _place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The URL of a log directory in a bucket."""
    if request.param == "file":
        yield f"file://{tmp_path}/bucket"
        return
    with served() as port:
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        yield f"s3://{NAME}/{tmp_path.name}"


def test_the_same_is_done_and_shown_in_a_directory_and_in_its_upload(
    place: str, tmp_path: Path
) -> None:
    """Each command ends with the same status and says the same, and the logs have the same bytes
    after each.
    """
    log_dir, bucket = two_logs(tmp_path / "here"), Bucket.of(place)
    put(log_dir, bucket)
    url = (place, place.replace("//", "/").replace("//", "/"))
    for number, (command, *words) in enumerate(STEPS):
        here, there = called(command, log_dir, *words), called(command, place, *words)
        step = f"{number}: {command} {words}"
        assert here.exit_code == there.exit_code, (step, here.output, there.output)
        assert said(here.stdout, str(log_dir)) == said(there.stdout, *url), step
        assert said(here.stderr, str(log_dir)) == said(there.stderr, *url), step
        assert read_state(log_dir) == read_state(place_of(place)), step
        for partition in (T0, U0):
            assert [] == differences(log_dir, bucket, tmp_path / "compared", partition), step
    assert 0 == called("verify", place, "u-0").exit_code
    assert [T0, U0] == list_partitions(place_of(place))


@pytest.fixture(name="paused")
def _paused(tmp_path: Path, agreement: bytes) -> str:
    """The URL of a log in a bucket that was paused twice, by two owners."""
    put(copy_before("basic-none", tmp_path), Bucket.of(f"file://{tmp_path}/bucket"), agreement)
    url = f"file://{tmp_path}/bucket"
    for owner in ("a", "b"):
        words = ("--reason", "x", "--owner", owner, "--yes", "--now", NOW)
        assert 0 == called("pause", url, "t-0", *words).exit_code
    return url


def owners(url: str) -> list[str]:
    """Who has paused it."""
    state = read_state(place_of(url)).get(T0)
    return [] if state is None else [pause.owner for pause in state.pauses]


CHANGING = {
    "clean": (*COMPACT, "--force"),
    "roll": ("--force",),
    "retain": ("--config", "cleanup.policy=delete", "--config", "retention.bytes=0"),
    "undo": ("t-0",),
    "purge": (),
    "erase": ("--now-and-for-good", "--keys", "{keys}"),
}


@pytest.mark.parametrize("command", CHANGING)
def test_a_pause_in_the_middle_is_kept(
    command: str, tmp_path: Path, paused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when all is planned, built and sent: then nothing is committed, and it is said."""
    bucket = Bucket.of(paused)
    assert 0 == called("resume", paused, "--yes").exit_code
    if command == "undo":
        assert 0 == called("clean", paused, *CHANGING["clean"], "--yes").exit_code
    if command == "purge":
        (tmp_path / "bucket/t-0/data/left.log").write_bytes(b"x")
        made_old(tmp_path / "bucket", days=8)
    (tmp_path / "keys").write_text("key-00041\n")
    before, later = version(bucket), Pause(owner="ops", reason="y", since_ms=TimestampMs(NOW))
    seen: list[str] = []

    def checked(place: Place, *given: Any, **options: Any) -> None:  # noqa: ANN401 -- passed on
        change_state(place_of(paused), T0, lambda now: now.with_pause(later))
        seen.append("checked")
        refuse_held(place, *given, **options)

    for module in ("logwright.maintenance.maintain", "logwright.cli.run.in_bucket"):
        monkeypatch.setattr(f"{module}.refuse_held", checked)
    words = [word.format(keys=tmp_path / "keys") for word in CHANGING[command]]
    answer = called(command, paused, *words, "--yes", "--now", NOW)
    assert ["checked"] == seen
    assert Paused.exit_status == answer.exit_code, answer.output
    assert "paused by ops until it is resumed: y" in answer.output
    assert before == version(bucket)
    assert (tmp_path / "bucket/t-0/data/left.log").exists() == (command == "purge")
    assert ["ops"] == owners(paused)
    again = called(command, paused, *words, "--yes", "--now", NOW)
    assert "t-0: skipped: paused by ops" in again.stderr
    assert before == version(bucket)


@pytest.mark.parametrize("command", ["pause", "resume", "quarantine", "clean", "plan", "purge"])
def test_a_broken_newest_state_stops_everything(command: str, tmp_path: Path, paused: str) -> None:
    """By name; the state before it, in which less is paused, is not taken for it."""
    path = tmp_path / "bucket" / state_key(1)
    content = path.read_bytes()
    before = version(Bucket.of(paused))
    for broken_one in (content[:-1], content.replace(b"ops", b"opa").replace(b'"b"', b'"c"'), b""):
        path.write_bytes(broken_one)
        words = {"clean": (*COMPACT, "--yes"), "resume": ("--yes",), "purge": ("--yes",)}
        given = words.get(command, COMPACT if command == "plan" else ())
        answer = called(command, paused, *given, "--output", "json", "--now", NOW)
        assert UnreadableFile.exit_status == answer.exit_code, answer.output
        assert "What is paused is not known, so nothing is done." in answer.output
        assert state_key(1) in answer.output
    assert before == version(Bucket.of(paused))
    assert broken_one == path.read_bytes()


def test_purge_removes_earlier_states_when_they_are_old(tmp_path: Path, paused: str) -> None:
    """And only those; what is paused stays so."""
    shown = called("purge", paused, "--yes", "--now", NOW)
    assert 0 == shown.exit_code
    assert "earlier state" not in shown.output
    made_old(tmp_path / "bucket", days=8)
    dry = called("purge", paused, "--dry-run", "--now", NOW)
    assert "1 earlier state due" in dry.stdout
    assert 2 == len(Bucket.of(paused).listing(STATES))
    assert "1 earlier state removed" in called("purge", paused, "--yes", "--now", NOW).stdout
    assert [state_key(1)] == [each.key for each in Bucket.of(paused).listing(STATES)]
    assert ["a", "b"] == owners(paused)


@pytest.mark.parametrize("is_after", [False, True])
def test_killed_at_every_request(paused: str, is_after: bool) -> None:
    """The log is paused or not, and never less than before; run again, it is."""
    words = ("--reason", "x", "--owner", "c", "--yes", "--now", NOW)
    number, outcomes = 0, set()
    while True:
        draw = random.Random(0)
        draw.random = lambda: 0.0 if is_after else 0.9  # type: ignore[method-assign]
        with broken(Breaking(draw, dies=number)):
            try:
                done = called("pause", paused, "t-0", *words)
            except Killed:
                done = None
        now = owners(paused)
        assert now in (["a", "b"], ["a", "b", "c"])
        outcomes.add(len(now))
        if done is not None:
            break
        assert 0 == called("pause", paused, "t-0", *words).exit_code
        assert ["a", "b", "c"] == owners(paused)
        assert 0 == called("resume", paused, "t-0", "--owner", "c", "--yes").exit_code
        number += 1
    assert number > 3
    assert {2, 3} == outcomes


def test_two_at_once_over_http_with_faults(tmp_path: Path) -> None:
    """Each pause and each release that was answered is there at the end; requests are lost, late,
    twice, refused with 409, 412 and 503.
    """
    with (
        served() as port,
        proxied(port, rate=0.15, seed=1) as proxy,
        patch.dict(os.environ, environment(proxy.port)),
        ThreadPoolExecutor(3) as pool,
    ):
        put(copy_before("basic-none", tmp_path), Bucket.of(f"s3://{NAME}/paused"))
        expected = list(pool.map(_pauses, range(3)))
        time.sleep(LIFE_SECONDS * 1.1)
        assert sorted(set().union(*expected)) == owners(f"s3://{NAME}/paused")
    assert proxy.faults.total() > 10


def _pauses(number: int) -> set[str]:
    """Pause and resume as several owners; return those that have paused it at the end."""
    place, own, draw = place_of(f"s3://{NAME}/paused"), set[str](), random.Random(number)
    for _ in range(6):
        owner = f"{number}-{draw.randrange(4)}"
        pause = Pause(owner=owner, reason="x", since_ms=TimestampMs(NOW))
        if owner in own:
            change_state(place, T0, lambda now, owner=owner: now.without_pauses(owner))
            own.remove(owner)
        else:
            change_state(place, T0, lambda now, pause=pause: now.with_pause(pause))
            own.add(owner)
    return own
