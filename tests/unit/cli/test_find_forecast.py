"""`find --forecast`: the time that it says is the time at which a key is really gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logwright.times import duration
from tests.found import plain_bytes
from tests.ingested import Row, append
from tests.log_builder import START_MS
from tests.unit.cli.conftest import Answer, Call

LAG, RETAIN, DELAY = 20_000, 30_000, 5_000
STAGES = {
    "cleanup.policy": "compact",
    "segment.ms": "10000",
    "max.compaction.lag.ms": str(LAG),
    "min.cleanable.dirty.ratio": "1",
    "delete.retention.ms": str(RETAIN),
    "file.delete.delay.ms": str(DELAY),
}
OPTIONS = tuple(word for pair in STAGES.items() for word in ("--config", "=".join(pair)))
KEY, PLANTED_VALUE = b"planted-alice", b"planted-value"


def findings(answer: Answer) -> list[dict[str, Any]]:
    return [line for line in answer.lines if "kind" in line]


class Maintained:
    """A log that is maintained: at each full second, and around the times that are expected."""

    def __init__(self, call: Call, log_dir: Path) -> None:
        self._call = call
        self.log_dir = log_dir
        log_dir.mkdir()
        self.now_ms = START_MS

    def append(self, key: bytes, value: bytes | None, at_ms: int) -> None:
        """Append a record as a leader would."""
        row: Row = (key, value, [], at_ms)
        append(self.log_dir, [row], STAGES, now_ms=at_ms, ingest_id=f"at {at_ms}")

    def until(self, end_ms: int, *due_ms: int) -> None:
        """Run roll, clean and purge each second, just before and at each time when something is
        due, and at the end.
        """
        near = {one - before for one in (*due_ms, end_ms) for before in (0, 1)}
        times = near | {*range(self.now_ms + 1000, end_ms, 1000)}
        for now_ms in sorted(time for time in times if self.now_ms < time <= end_ms):
            for command in ("clean", "purge"):
                answer = self._call(command, self.log_dir, "--yes", *OPTIONS, "--now", now_ms)
                assert answer.status == 0, answer.err
        self.now_ms = end_ms

    def find(self, *words: str | Path) -> Answer:
        """Search it now."""
        more = ("--now", self.now_ms, "--output", "json")
        return self._call("find", self.log_dir, *OPTIONS, *words, *more)

    def holds(self, text: bytes) -> bool:
        """Whether plain code sees these bytes in any file."""
        files = [path for path in self.log_dir.rglob("*") if path.is_file()]
        return any(
            text in (plain_bytes(path.read_bytes()) if ".log" in path.name else path.read_bytes())
            for path in files
        )


def test_a_key_is_gone_when_the_forecast_says(call: Call, tmp_path: Path) -> None:
    """By really running the stages: not one millisecond earlier, and not one later."""
    log = Maintained(call, tmp_path / "logs")
    keys = tmp_path / "keys"
    keys.write_bytes(KEY + b"\n")
    log.append(KEY, PLANTED_VALUE, START_MS)
    log.until(START_MS + 4_000)
    forecast = log.find("--keys", keys, "--forecast").lines
    assert [True] == [line["needsTombstone"] for line in forecast if "needsTombstone" in line]
    log.append(KEY, None, log.now_ms)
    # The value: rolled after segment.ms, cleaned after the lag, purged after the delay.
    value, tombstone = findings(log.find("--keys", keys))
    assert ("superseded", "max.compaction.lag.ms") == (value["kind"], value["rule"])
    gone_ms = START_MS + LAG + 1 + DELAY
    assert gone_ms == value["goneByMs"]
    # Nothing makes the log due again that would remove the tombstone.
    assert ("tombstone", "delete.retention.ms", None) == (
        tombstone["kind"],
        tombstone["rule"],
        tombstone["goneByMs"],
    )
    log.until(gone_ms - 1, gone_ms - DELAY)
    assert log.holds(PLANTED_VALUE)
    assert {gone_ms} == {
        finding["goneByMs"]
        for finding in findings(log.find("--keys", keys))
        if finding["place"] == "deleted"
    }
    log.until(gone_ms)
    assert not log.holds(PLANTED_VALUE)
    # The tombstone: another key that is appended makes the log due again, after its horizon.
    filler_ms = START_MS + LAG + 1 + RETAIN - LAG + 3_000
    log.until(filler_ms)
    log.append(b"other", b"x", filler_ms)
    (tombstone,) = findings(log.find("--keys", keys))
    last_ms = filler_ms + LAG + 1 + DELAY
    assert last_ms == tombstone["goneByMs"]
    log.until(last_ms - 1, last_ms - DELAY)
    assert log.holds(KEY)
    log.until(last_ms)
    assert not log.holds(KEY)
    assert log.find("--keys", keys).status == 0


def test_a_deadline_and_what_makes_it(call: Call, tmp_path: Path) -> None:
    """The settings that are proposed make the deadline, and one millisecond more does not."""
    log = Maintained(call, tmp_path / "logs")
    keys = tmp_path / "keys"
    keys.write_bytes(KEY + b"\n")
    log.append(KEY, PLANTED_VALUE, START_MS)
    log.now_ms = START_MS + 1_000
    words = ("--keys", keys, "--forecast", "--appends-continue", "--run-interval", "1 s")
    (whole,) = [one for one in log.find(*words).lines if "suggestions" in one]
    deadline = whole["goneByMs"] - 3_000
    answer = log.find(*words, "--deadline", str(deadline))
    assert answer.status == 10
    (late,) = [one for one in answer.lines if "suggestions" in one]
    assert {
        "max.compaction.lag.ms",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "run interval",
    } == set(late["suggestions"])
    when = ("--now", log.now_ms, "--deadline", deadline)
    shown = call("find", log.log_dir, *OPTIONS, *words, *when).out.splitlines()
    for setting, value in late["suggestions"].items():
        assert f"  {setting}={value} ({duration(value)}) makes the deadline." in shown
        for more, makes in ((0, True), (1, False)):
            changed = (
                ("--run-interval", str(value + more))
                if setting == "run interval"
                else ("--config", f"{setting}={value + more}")
            )
            (again,) = [one for one in log.find(*words, *changed).lines if "suggestions" in one]
            assert makes == (again["goneByMs"] <= deadline), setting
