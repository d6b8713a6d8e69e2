"""`dump --decode`: keys and values as JSON."""

from __future__ import annotations

import base64
import datetime as dt
import json
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from logwright.decode.dumped import _json
from logwright.log.dump import to_json
from tests.fixtures import case_dir
from tests.unit.cli.conftest import Answer, Call

BROKER = case_dir("real-broker") / "before"
OFFSETS, STATES, USERS = "__consumer_offsets-0", "__transaction_state-0", "users-0"


def records(answer: Answer) -> list[dict[str, Any]]:
    """The data records of an answer."""
    assert 0 == answer.status, answer.err
    batches = [line for line in answer.lines if line["type"] == "batch" and not line["control"]]
    return [record for batch in batches for record in batch["records"]]


def text(record: dict[str, Any], part: str) -> str:
    """The content of a record that was not decoded."""
    return base64.b64decode(record[part]).decode()


@pytest.mark.parametrize(("name", "types"), [(OFFSETS, {1, 2}), (STATES, {0})])
def test_internal_topics_by_default(call: Call, name: str, types: set[int]) -> None:
    """As Kafka's own formatters print them: type and data, version and data."""
    decoded = records(call("dump", BROKER, name, "--decode"))
    raw = records(call("dump", BROKER, name))
    assert types == {record["key"]["type"] for record in decoded}
    assert len(raw) == len(decoded)
    for before, after in zip(raw, decoded, strict=True):
        assert before["offset"] == after["offset"]
        assert before.keys() == after.keys()
        assert (before["value"] is None) == (after["value"] is None)
    commits = [one for one in decoded if one["key"]["name"] == "offset_commit" and one["value"]]
    for commit in commits:
        assert {"group", "topic", "partition"} == commit["key"]["data"].keys()
        assert commit["value"]["data"]["offset"] >= 0


def test_other_topics_stay_as_they_are(call: Call) -> None:
    """Without SPEC and policies; and no line but the batches of data changes."""
    plain = call("dump", BROKER, USERS)
    assert plain.lines == call("dump", BROKER, USERS, "--decode").lines
    decoded = call("dump", BROKER, OFFSETS, "--decode")
    kinds = Counter(line["type"] for line in call("dump", BROKER, OFFSETS).lines)
    assert kinds == Counter(line["type"] for line in decoded.lines)


def test_by_a_spec(call: Call) -> None:
    """Of values alone, or of both: text is; a value with fields is an object."""
    raw = records(call("dump", BROKER, USERS))
    strings = records(call("dump", BROKER, USERS, "--decode", "string"))
    values = records(call("dump", BROKER, USERS, "--decode", "json"))
    assert [one["key"] for one in raw] == [one["key"] for one in values]
    spec = "{key: string, value: json}"
    both = records(call("dump", BROKER, USERS, f"--decode={spec}"))
    assert len(raw) == len(strings) == len(both)
    objects = 0
    for before, as_string, by_spec in zip(raw, strings, both, strict=True):
        assert text(before, "key") == as_string["key"]
        if before["value"] is None:
            assert as_string["value"] is None
            assert by_spec["value"] is None
            continue
        assert text(before, "value") == as_string["value"]
        if "valueRefused" in by_spec:
            assert before["value"] == by_spec["value"]
            continue
        objects += 1
        assert text(before, "key") == by_spec["key"]
        assert json.loads(as_string["value"]) == {
            name: value for name, value in by_spec["value"].items() if value is not None
        }
    assert objects > 10


def test_refused_records_have_a_reason(call: Call) -> None:
    """They stay base64; nothing but the offset and the reason is added."""
    raw = records(call("dump", BROKER, USERS))
    spec = "{key: long, value: uuid}"
    for before, after in zip(
        raw, records(call("dump", BROKER, USERS, f"--decode={spec}")), strict=True
    ):
        assert (before["key"], before["value"]) == (after["key"], after["value"])
        assert "is not a long: not 8 bytes" == after["keyRefused"]
        if before["value"] is not None:
            assert "is not a UUID" == after["valueRefused"]


def test_by_the_policies(call: Call, tmp_path: Path) -> None:
    """The topic's table decides; SPEC wins."""
    (tmp_path / "p.yml").write_text(
        "version: 1\ntopics:\n  - name: users\n"
        f"    table: {{format: parquet, path: {tmp_path / 'table'}, key: string, value: string}}\n"
    )
    words = ("dump", BROKER, USERS, "--policies", tmp_path)
    raw = records(call("dump", BROKER, USERS))
    decoded = records(call(*words, "--decode"))
    assert [text(record, "key") for record in raw] == [record["key"] for record in decoded]
    given = records(call(*words, "--decode={value: string}"))
    assert [record["key"] for record in raw] == [record["key"] for record in given]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("strng", "must be one of"),
        ("{format: avro, schema_file: no.avsc}", "is not a file"),
        (str(BROKER), "must be one of"),
    ],
)
def test_invalid_specs(call: Call, spec: str, problem: str) -> None:
    """A usage error, before anything is read; as of a directory that --decode took as SPEC."""
    answer = call("dump", BROKER, USERS, "--decode", spec)
    assert 2 == answer.status or "PolicyError" in answer.err
    assert problem in answer.err
    assert "" == answer.out


def test_only_internal_topics_are_internal(call: Call) -> None:
    """The format fails for the other topics, and for them only."""
    answer = call("dump", BROKER, USERS, STATES, "--decode=kafka-internal")
    assert 2 == answer.status
    assert "not for users" in answer.err
    assert {STATES} == {line["topicPartition"] for line in answer.lines}


def test_internal_topics_need_no_extra(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are decoded without Arrow; a spec names the extra that is missing."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert records(call("dump", BROKER, OFFSETS, "--decode"))
    monkeypatch.setattr(
        "logwright.extras.importlib.util.find_spec", lambda name: None if name == "orjson" else name
    )
    answer = call("dump", BROKER, USERS, "--decode=json")
    assert 5 == answer.status
    assert "pip install 'logwright[tables]'" in answer.err


def test_values_that_json_has_not() -> None:
    """Bytes are base64, times ISO 8601, decimals text, pairs of maps objects, NaN is text."""
    value = {
        "a": [b"\xff", Decimal("1.20"), float("nan"), 1.5, True, None],
        "b": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        "c": dt.date(2024, 1, 1),
        "d": [("k", b"")],
    }
    assert {
        "a": ["/w==", "1.20", "nan", 1.5, True, None],
        "b": "2024-01-01T00:00:00+00:00",
        "c": "2024-01-01",
        "d": [{"key": "k", "value": ""}],
    } == _json(value)
    assert json.loads(to_json({"x": _json(value)}))
