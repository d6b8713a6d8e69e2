"""What counts as committed: the option, else the policies, else what is on record, and all of a
log without a record of it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.log_builder import START_MS, LogBuilder
from tests.unit.cli.conftest import Call

SECTION = {"end": "high_watermark: end\n", "checkpoint": "high_watermark: checkpoint\n", None: ""}
END = 4
"""Where the closed segments end."""
COMMITTED = 3
"""What the high watermark's checkpoint says: some replicas do not have the last record."""

RECORDED = (
    "replication-offset-checkpoint, and the end of logs that it does not have"
    " (the default of the command line)"
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("a", "2")])
    builder.segment(COMMITTED).batch(COMMITTED, [("b", "2")])
    builder.segment(END)
    return builder.write(high_watermark=COMMITTED).log_dir


def words(tmp_path: Path, policies: str | None, option: str | None) -> list[str | Path | int]:
    """Options of a command; `policies` is the content of their only file, None: no policies."""
    options: list[str | Path | int] = ["--now", START_MS + 10_000, "--output", "json"]
    options += ["--config", "cleanup.policy=compact"]
    if policies is not None:
        (tmp_path / "policies").mkdir()
        (tmp_path / "policies" / "p.yml").write_text(f"version: 1\n{policies}")
        options += ["--policies", tmp_path / "policies"]
    return options if option is None else [*options, "--high-watermark", option]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None), COMMITTED),
        ((None, "checkpoint"), COMMITTED),
        ((SECTION["checkpoint"], None), COMMITTED),
        ((SECTION["end"], None), END),
        ((SECTION[None], None), COMMITTED),
        ((None, "end"), END),
        ((SECTION["checkpoint"], "end"), END),
        ((SECTION["end"], "checkpoint"), COMMITTED),
    ],
)
def test_nothing_above_it_is_cleaned(
    call: Call,
    tmp_path: Path,
    log_dir: Path,
    given: tuple[str | None, str | None],
    expected: int,
) -> None:
    """A record above the high watermark may still be replaced by another leader's."""
    options = words(tmp_path, *given)
    (inspected,) = call("inspect", log_dir, "t-0", *options).lines
    assert expected == inspected["highWatermark"]
    assert expected == call("plan", log_dir, *options).lines[0]["highWatermark"]
    answer = call("clean", log_dir, *options, "--force", "--yes")
    assert 0 == answer.status, answer.err
    assert expected == answer.lines[0]["newFirstDirtyOffset"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None), RECORDED),
        ((SECTION[None], None), RECORDED),
        (
            (SECTION["checkpoint"], None),
            "replication-offset-checkpoint (high_watermark: checkpoint of the policies)",
        ),
        ((SECTION["checkpoint"], "end"), "the end of each log (--high-watermark end)"),
    ],
)
def test_a_plan_names_where_it_is_from(
    call: Call,
    tmp_path: Path,
    log_dir: Path,
    given: tuple[str | None, str | None],
    expected: str,
) -> None:
    """What counts as committed, and what says so: the same with and without other policies."""
    options = words(tmp_path, *given)
    text = call("plan", log_dir, *options, "--output", "text")
    assert f"high watermark: {expected}" == text.out.splitlines()[1]
    summary = call("plan", log_dir, *options).lines[-1]
    assert expected.endswith(f"({summary['highWatermarkFrom']})")


def test_a_reason_names_the_checkpoint(call: Call, tmp_path: Path, log_dir: Path) -> None:
    """Where the high watermark holds a cleaning back, the reason has its file, not only "the last
    stable offset".
    """
    builder = LogBuilder(tmp_path / "held")
    builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("a", "2")])
    builder.segment(COMMITTED).batch(COMMITTED, [("b", "2")])
    builder.segment(END)
    log_dir = builder.write(high_watermark=2).log_dir
    options = words(tmp_path, SECTION["checkpoint"], None)
    line = call("plan", log_dir, *options).lines[0]
    expected = "first uncleanable offset 0: the high watermark of replication-offset-checkpoint"
    assert expected in " ".join(line["reasons"])
    text = call("plan", log_dir, *options, "--output", "text").out
    assert "not cleaned from offset 2 on: the high watermark of replication-off" in text


NOT_ON_RECORD = "No high watermark is on record of 1 log (t-0): all of them counts as committed."


@pytest.mark.parametrize("command", ["clean", "retain", "maintain"])
def test_a_log_without_a_record_counts_to_its_end(call: Call, tmp_path: Path, command: str) -> None:
    """That nobody recorded what is committed is said; of a log with a record it is not."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("a", "2")])
    builder.segment(COMMITTED)
    log_dir = builder.write().log_dir
    policy = "delete" if command == "retain" else "compact"
    words = [command, log_dir, "--yes", "--config", f"cleanup.policy={policy}", "--now", START_MS]
    assert NOT_ON_RECORD in call(*words).err
    assert NOT_ON_RECORD not in call(*words, "--high-watermark", "end").err
    (log_dir / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {COMMITTED}\n")
    recorded = call(*words)
    assert (0, False) == (recorded.status, "high watermark" in recorded.err)


@pytest.mark.parametrize("command", ["latest", "dump"])
def test_readers_say_what_they_leave_out(
    call: Call, tmp_path: Path, log_dir: Path, command: str
) -> None:
    """What is beyond the high watermark is not read, and its offsets are named."""
    words = {
        "latest": ["latest", log_dir, "t", "--to", tmp_path / "table"],
        "dump": ["dump", log_dir, "t-0", "--records"],
    }[command]
    left = call(*words, "--output", "json")
    named = "t-0: offsets 3 to 3 are beyond the high watermark on record and may not be committed"
    assert named in left.err
    shutil.rmtree(tmp_path / "table", ignore_errors=True)
    whole = call(*words, "--output", "json", "--high-watermark", "end")
    assert (0, False) == (whole.status, "high watermark" in whole.err)
    assert whole.out != left.out


def test_a_malformed_checkpoint_is_recovered_first(call: Call, log_dir: Path) -> None:
    """The question for it does not end the command before the recovery that writes it again."""
    checkpoint = log_dir / "replication-offset-checkpoint"
    checkpoint.write_text("x")
    (log_dir / ".kafka_cleanshutdown").unlink()
    answer = call("clean", log_dir, "--yes", "--force", "--config", "cleanup.policy=compact")
    assert 0 == answer.status, answer.err
    assert checkpoint.read_text().startswith("0\n")
