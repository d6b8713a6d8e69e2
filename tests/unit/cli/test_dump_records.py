"""`dump` of records, one in each line: from an offset or a time on, with a key, some of them."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from logwright.format.names import TopicPartition
from logwright.format.record import RecordHeader
from logwright.locks import try_lock
from logwright.log.load import observe
from logwright.running import watermark
from tests.fixtures import case_dir
from tests.log_builder import LogBuilder
from tests.plain_consumer import consume
from tests.unit.cli.conftest import Call

KEYS = 7
COUNT = 60


def value(offset: int) -> str:
    """The value of a record."""
    return f'{{"id": {offset}, "text": "{"x" * 300}"}}'


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """Two segments, a batch for each record, an index entry for each batch."""
    log = LogBuilder(tmp_path / "logs")
    for base in (0, COUNT // 2):
        segment = log.segment(base)
        for offset in range(base, base + COUNT // 2):
            segment.batch(offset, [(f"k{offset % KEYS}", value(offset))])
    log.write(index_interval=1)
    return log


def offsets(lines: list[dict[str, Any]]) -> list[int]:
    return [line["offset"] for line in lines]


def test_each_record_is_a_line(call: Call, log: LogBuilder) -> None:
    """With the fields of the records in a batch's line; keys and values in base64, or decoded."""
    batches = [line for line in call("dump", log.log_dir).lines if line["type"] == "batch"]
    expected = [record for line in batches for record in line["records"]]
    for record in expected:
        record.pop("sequence", None)
    answer = call("dump", log.log_dir, "t-0", "--records")
    assert (0, expected) == (answer.status, answer.lines)
    spec = "{key: string, value: json}"
    for number, line in enumerate(call("dump", log.log_dir, "--records", "--decode", spec).lines):
        assert f"k{number % KEYS}" == line["key"]
        assert {"id": number, "text": "x" * 300} == line["value"]


def test_what_is_selected(call: Call, log: LogBuilder) -> None:
    """Each option alone, and together; one that selects nothing prints nothing."""
    times = [line["timestamp"] for line in call("dump", log.log_dir, "--records").lines]
    assert times[40] > times[39]
    expected = {
        (): range(COUNT),
        ("--offset", 41): range(41, COUNT),
        ("--offset", COUNT): range(0),
        ("--time", times[40]): range(40, COUNT),
        ("--time", times[-1] + 1): range(0),
        ("--count", 3): range(3),
        ("--count", 0): range(0),
        ("--key", "k3"): range(3, COUNT, KEYS),
        ("--key", "other"): range(0),
        ("--offset", 10, "--key", "k3", "--count", 2): range(10, 18, KEYS),
        ("--offset", 50, "--time", times[40], "--count", 2): range(50, 52),
    }
    for words, wanted in expected.items():
        answer = call("dump", log.log_dir, "--records", *words)
        assert (0, list(wanted)) == (answer.status, offsets(answer.lines)), words
        assert (not wanted) == ("t-0: no record is selected.\n" == answer.err)
        if words:
            assert answer.lines == call("dump", log.log_dir, *words).lines


@pytest.mark.parametrize("broken", [0, 35])
def test_what_is_before_is_not_read(call: Call, log: LogBuilder, broken: int) -> None:
    """Neither an earlier segment, nor what is before an index entry in the same one: a batch with
    a wrong CRC there stops nobody.
    """
    path = log.directory / f"{broken // 30 * 30:020d}.log"
    content = bytearray(path.read_bytes())
    content[content.index(f'"id": {broken}'.encode())] ^= 1
    path.write_bytes(content)
    answer = call("dump", log.log_dir, "--offset", 50, "--count", 5)
    assert (0, list(range(50, 55))) == (answer.status, offsets(answer.lines))
    assert 3 == call("dump", log.log_dir, "--offset", broken).status


def test_as_a_consumer_gets_them(call: Call, tmp_path: Path) -> None:
    """Committed records only, without those of aborted transactions and markers; with headers."""
    log = LogBuilder(tmp_path / "logs")
    headers = (RecordHeader(key=b"h", value=b"1"), RecordHeader(key=b"n", value=None))
    segment = log.segment(0).batch(0, [("a", "1"), (None, None)], headers=headers)
    segment.batch(2, [("b", "gone")], producer_id=7, transactional=True).marker(3, 7, "abort")
    segment.batch(4, [("b", "kept")], producer_id=8, transactional=True).marker(5, 8, "commit")
    segment.batch(6, [("c", "open")], producer_id=9, transactional=True)
    log.write(producers=True)
    observed = observe(log.log_dir, TopicPartition("t", 0), high_watermark="end")
    rows = consume(observed, "read_committed")
    assert [0, 1, 4] == [offset for _, _, offset, *_ in rows]
    answer = call("dump", log.log_dir, "--records")
    assert 0 == answer.status, answer.err
    expected = [
        {"offset": offset, "timestamp": time, "key": encoded(key), "value": encoded(content)}
        | (
            {"headers": [{"key": name, "value": encoded(one)} for name, one in more]}
            if more
            else {}
        )
        for key, content, offset, time, _, more in rows
    ]
    assert expected == answer.lines


def encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def test_what_would_decode_them_is_named(call: Call, log: LogBuilder) -> None:
    """On stderr, by how many records were looked at, and nothing of them; not if it was given."""
    wanted = (
        "t-0: {0} of {0} keys looked at look like UTF-8, {0} of {0} values looked at look like"
        " JSON: --decode='{{key: string, value: json}}'\n"
    )
    assert wanted.format(COUNT) == call("dump", log.log_dir).err
    assert wanted.format(5) == call("dump", log.log_dir, "--count", 5).err
    assert "" == call("dump", log.log_dir, "--decode", "string").err
    internal = call("dump", case_dir("real-broker") / "before", "__consumer_offsets-0")
    assert "__consumer_offsets-0 has records of Kafka's own: --decode\n" == internal.err


def test_internal_records_are_decoded(call: Call) -> None:
    """As in the lines of batches."""
    words = ("dump", case_dir("real-broker") / "before", "__consumer_offsets-0", "--count", 2)
    first, second = call(*words, "--decode").lines
    assert {"type", "name", "data"} == first["key"].keys() == second["key"].keys()


def test_beside_a_broker_nothing_is_read(
    call: Call, log: LogBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are those of a stopped broker: its lock is respected."""
    monkeypatch.setattr(watermark, "PATIENCE_SECONDS", 0.2)
    file = os.open(log.log_dir / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        assert try_lock(file, "exclusive")
        answer = call("dump", log.log_dir, "--records")
    finally:
        os.close(file)
    assert (5, "") == (answer.status, answer.out)
    assert "broker" in answer.err
