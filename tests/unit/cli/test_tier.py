"""Commands with a tier: what a user sees of it, and what they may claim."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from logwright.spark.kafka_log import KafkaLogReader
from logwright.spark.kafka_log_options import read_options
from logwright.spark.kafka_log_rows import SCHEMA
from tests.tiers import PARTITIONS, TIERS, Tiered, unpacked
from tests.unit.cli.conftest import Answer, Call


@pytest.fixture(name="tiered", params=TIERS)
def _tiered(request: pytest.FixtureRequest, tmp_path: Path) -> Tiered:
    """A tier with its log directory; keys, a secret and a signing key next to them."""
    tiered = unpacked(request.param, tmp_path)
    (tiered.root / "secret").write_text("s" * 64)
    (tiered.root / "secret").chmod(0o600)
    return tiered


def keyed(tiered: Tiered, *keys: bytes) -> tuple[str | Path, ...]:
    """The options that name some keys of the topic ``plain``."""
    (tiered.root / "keys.txt").write_bytes(b"\n".join(keys) + b"\n")
    return (
        *("--keys", tiered.root / "keys.txt", "--secret", tiered.root / "secret"),
        *("--topic", "plain"),
    )


def remote_key(tiered: Tiered) -> bytes:
    """A key of ``plain`` whose records are all in remote segments."""
    local: set[str] = set()
    remote: set[str] = set()
    for partition in ("plain-0", "plain-1"):
        for row in tiered.consumed("read_uncommitted", partition):
            (remote if row[0] < 280 else local).add(row[2])
    return base64.b64decode(min(remote - local))


def test_the_documented_commands(tiered: Tiered, call: Call, tmp_path: Path) -> None:
    """docs/tiers.md."""
    logs, words = tiered.logs, tiered.words
    assert {*words[::2]} <= {"--tier", "--tier-key"}
    answer = call("inspect", logs, *words, "--output", "json")
    remote = {line["topicPartition"]: line for line in answer.lines if "remoteSegments" in line}
    assert {*PARTITIONS} == {name for name, line in remote.items() if line["remoteSegments"]}
    assert (0, 330) == tuple(remote["plain-0"][name] for name in ("logStartOffset", "logEndOffset"))
    answer = call("dump", logs, "plain-0", *words, "--records", "--count", 500)
    expected = tiered.consumed("read_uncommitted", "plain-0")
    assert [row[:1] + row[2:3] for row in expected] == [
        [line["offset"], line["key"]] for line in answer.lines
    ]
    assert 0 == call("verify", logs, *words).status
    to = tmp_path / "plain.parquet"
    assert 0 == call("latest", logs, "plain", "--to", to, *words).status
    assert pq.read_table(to).num_rows > 100
    (tiered.root / "one").write_bytes(remote_key(tiered))
    answer = call("find", logs, "--keys", tiered.root / "one", *words)
    assert 8 == answer.status, answer.err
    key = () if tiered.key is None else ("--tier-key", tiered.key)
    alone = call("dump", f"tier:{tiered.remote}", "plain-0", "--records", *key)
    assert len(alone.lines) == 281
    assert "Only remote segments are here of plain-0" in alone.err


def found(answer: Answer) -> list[str]:
    return [line["place"] for line in answer.lines if "place" in line]


def test_find_names_what_is_in_the_tier(tiered: Tiered, call: Call) -> None:
    """With its place; without the tier it is said that it was not searched."""
    words = keyed(tiered, remote_key(tiered))
    answer = call("find", tiered.logs, *words, *tiered.words, "--output", "json")
    assert (8, {"remote segment"}) == (answer.status, set(found(answer)))
    assert 9 == call("find", tiered.logs, *words).status
    nobody = keyed(tiered, b"nobody")
    assert 0 == call("find", tiered.logs, *nobody, *tiered.words).status
    assert 9 == call("find", tiered.logs, *nobody).status


def certified(
    tiered: Tiered, call: Call, words: Sequence[str | Path]
) -> tuple[int, dict[str, int]]:
    """Exit status, and how many requests are in which state."""
    if not (tiered.root / "key").exists():
        assert 0 == call("certificate", "--new-key", tiered.root / "key").status
    out = ("--signing-key", tiered.root / "key", "--out", tiered.root / "c.json")
    answer = call("certificate", tiered.logs, *words, *out, "--output", "json")
    states: dict[str, int] = answer.lines[-1]["requests"]
    return answer.status, states


def test_a_certificate_says_gone_only_of_what_was_searched(tiered: Tiered, call: Call) -> None:
    """With the tier a key that is nowhere is proved not to be there; without, with another tier,
    with a part of it, or with an upload that was not finished, it is not.
    """
    nobody = keyed(tiered, b"nobody")
    assert (6, {"not proved": 1}) == certified(tiered, call, nobody)
    assert (0, {"not found": 1}) == certified(tiered, call, (*nobody, *tiered.words))
    made = json.loads((tiered.root / "c.json").read_text())
    assert "remote segments in other buckets" in json.dumps(made)
    remains = (*keyed(tiered, remote_key(tiered)), *tiered.words)
    status, states = certified(tiered, call, remains)
    assert {"not found", "gone"}.isdisjoint(states), status
    nobody = keyed(tiered, b"nobody")
    empty = tiered.root / "empty"
    empty.mkdir()
    other = (*nobody, "--tier", empty)
    assert (6, {"not proved": 1}) == certified(tiered, call, other)
    upload = next(
        path for path in tiered.remote.rglob("*.rsm-manifest") if "plain-" in path.parents[1].name
    )
    kept = upload.read_bytes()
    upload.unlink()
    assert (6, {"not proved": 1}) == certified(tiered, call, (*nobody, *tiered.words))
    upload.write_bytes(kept)
    for path in upload.parent.glob(f"{upload.stem}.*"):
        path.unlink()
    assert (6, {"not proved": 1}) == certified(tiered, call, (*nobody, *tiered.words))


def test_a_certificate_can_be_compared_with_its_tier(tiered: Tiered, call: Call) -> None:
    """All segments are in its manifest; a changed one is named."""
    certified(tiered, call, (*keyed(tiered, b"nobody"), *tiered.words))
    key = () if tiered.key is None else ("--tier-key", tiered.key)
    words = ("verify-certificate", tiered.root / "c.json", tiered.logs, f"tier:{tiered.remote}")
    public = ("--public-key", tiered.root / "key.pub", *key)
    assert 0 == call(*words, *public).status
    victim = next(tiered.remote.rglob("*.rsm-manifest"))
    for path in victim.parent.glob(f"{victim.stem}.*"):
        path.unlink()
    answer = call(*words, *public)
    assert 6 == answer.status
    assert f"{victim.stem}.log" in answer.out


def test_kafka_log_reads_the_tier(tiered: Tiered) -> None:
    """The tasks of the data source, without Spark; and its latest state."""
    options = {"path": str(tiered.logs), "subscribe": "plain,tx", "tier": str(tiered.remote)}
    if tiered.key is not None:
        options["tierKey"] = str(tiered.key)
    reader = KafkaLogReader(read_options(options), SCHEMA)
    rows = [
        (row["topic"], row["partition"], row["offset"])
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]
    expected = [
        (topic, number, row[0])
        for topic, number in (("plain", 0), ("plain", 1), ("tx", 0))
        for row in tiered.consumed("read_committed", f"{topic}-{number}")
    ]
    assert expected == sorted(rows)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--tier-key", "k"), "--tier-key needs --tier"),
        (("--tier", "http://bucket"), "not a kind of bucket"),
    ],
)
def test_options_that_contradict_each_other(
    call: Call, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    """They are refused as errors of usage."""
    tiered = unpacked("plain", tmp_path)
    answer = call("inspect", tiered.logs, *words)
    assert 2 == answer.status
    assert problem in answer.err
    answer = call("inspect", f"tier:{tiered.remote}", "--tier", tiered.remote)
    assert "contradict each other" in answer.err


def test_verify_names_damaged_objects(tiered: Tiered, call: Call) -> None:
    """By their keys, with exit status 3; other logs are checked."""
    victim = next(
        path for path in tiered.remote.rglob("*.log") if path.parents[1].name.startswith("tx-")
    )
    victim.write_bytes(victim.read_bytes()[:-1])
    answer = call("verify", tiered.logs, *tiered.words)
    assert 3 == answer.status
    assert str(victim.relative_to(tiered.remote)) in answer.out
    assert "plain-0: no problems found" in answer.out
    shutil.rmtree(tiered.remote)
    assert 0 != call("verify", tiered.logs, *tiered.words).status
