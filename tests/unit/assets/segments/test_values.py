"""The contract of decoded values: each rule finds its record, and no value leaves the check."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from logwright.assets.segments.value_frames import failures, schemas_of
from logwright.assets.segments.values import check_values
from logwright.compaction.build import build
from logwright.compaction.model import CleanPlan
from logwright.config.policies import load_policies
from logwright.config.topic_tests import ValueContract
from logwright.format.names import TopicPartition
from tests.log_builder import LogBuilder
from tests.plans import forced_plan

PLANTED = "s3cret-Zwölf"


def contract(tmp_path: Path, text: str) -> ValueContract:
    """The contract of a policy."""
    (tmp_path / "p.yml").write_text(
        f"version: 1\ntopics:\n  - name: t\n    tests:\n      - values: {text}\n"
    )
    (entry,) = load_policies(tmp_path).topics
    (test,) = entry.tests
    assert isinstance(test, ValueContract)
    return test


def broken(tmp_path: Path, text: str, values: Iterable[bytes]) -> list[tuple[str, int]]:
    """The failures of these values, which have the offsets from 100 on."""
    schemas = schemas_of(contract(tmp_path, text))
    return sorted(tuple(found) for found in failures(schemas, list(enumerate(values, 100))))  # type: ignore[misc]  # a pair


def columns(rules: str) -> str:
    return f"{{format: json, columns: {{{rules}}}}}"


@pytest.mark.parametrize(
    ("rules", "good", "bad", "rule"),
    [
        (
            "a: {type: long}",
            [1, None, -(2**63), 2**63 - 1],
            [1.0, "1", True, {}, 2**63],
            "type long",
        ),
        ("a: {type: double}", [1, 1.5, None], ["1", False, [1]], "type double"),
        ("a: {type: string}", ["", PLANTED, None], [1, [PLANTED]], "type string"),
        ("a: {type: boolean}", [True, False, None], [0, "true"], "type boolean"),
        ("a: {type: long, nullable: false}", [0], [None], "not null"),
        ("a: {type: long, min_value: 2}", [2, 3, None], [1, -5], "at least 2"),
        ("a: {type: double, max_value: 0.5}", [0.5, 0], [0.75, 1], "at most 0.5"),
        ("a: {type: string, regex: '[A-Z]{2}'}", ["DE", None], ["de", "DEU", ""], "regex"),
        ("a: {type: string, value_set: [x, 'y']}", ["x", "y", None], ["z", PLANTED], "value_set"),
        ("a: {type: long, value_set: [1, 2]}", [1, 2, None], [3], "value_set"),
        ("a: {type: string, min_length: 2}", ["ab", None], ["a", ""], "min_length 2"),
        ("a: {type: string, max_length: 2}", ["ab", ""], ["abc", PLANTED], "max_length 2"),
    ],
)
def test_each_rule_finds_its_records(
    tmp_path: Path, rules: str, good: list[object], bad: list[object], rule: str
) -> None:
    """Every bad one is one failure with its offset; no good one is."""
    values = [json.dumps({"a": value, "b": PLANTED}).encode() for value in [*bad, *good]]
    expected = [(f"a: {rule}", 100 + number) for number in range(len(bad))]
    assert expected == broken(tmp_path, columns(rules), values)


def test_a_field_inside_an_object_and_one_that_is_missing(tmp_path: Path) -> None:
    """A name with a dot; what is missing is null."""
    values = [b'{"a": {"b": 1}}', b'{"a": {}}', b'{"a": 1}', b"{}", b'{"a": {"b": null}}']
    broken_rules = broken(tmp_path, columns("a.b: {type: long, nullable: false}"), values)
    assert [("a.b: not null", offset) for offset in range(101, 105)] == broken_rules


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (
            "json",
            [b"{}"],
            [b"", b"[]", b"1", b"{", b'{"a": NaN}', b'{"a": "\\ud800"}', b"[" * 100_000, b"\xff"],
        ),
        ("string", [b"", b"x"], [b"\xff", PLANTED.encode("utf-16")]),
        ("long", [bytes(8)], [b"", bytes(7), bytes(9)]),
    ],
)
def test_a_value_of_another_format(
    tmp_path: Path, form: str, good: list[bytes], bad: list[bytes]
) -> None:
    """It is one failure, whatever the columns ask."""
    kind = "long" if form == "long" else "string"
    text = f"{{format: {form}, columns: {{value: {{type: {kind}}}}}}}"
    expected = [(f"value is {form}", 100 + number) for number in range(len(bad))]
    assert expected == broken(tmp_path, text, [*bad, *good])


def test_a_regular_expression_takes_linear_time(tmp_path: Path) -> None:
    """A value cannot keep the check busy: going back, this one would take longer than a life."""
    value = f'{{"a": "{"x" * 5_000}!"}}'.encode()
    expected = [("a: regex", 100)]
    assert expected == broken(tmp_path, columns("a: {type: string, regex: '(x+x+)+y'}"), [value])


def test_a_long_is_big_endian(tmp_path: Path) -> None:
    """As Kafka's LongSerializer writes it."""
    text = "{format: long, columns: {value: {type: long, min_value: -1}}}"
    values = [number.to_bytes(8, "big", signed=True) for number in (-2, -1, 256)]
    assert [("value: at least -1", 100)] == broken(tmp_path, text, values)


def planned_log(log_dir: Path, records: int) -> CleanPlan:
    """A log to clean: as many records with different keys, half of them not JSON."""
    log = LogBuilder(log_dir)
    first = log.segment(0)
    pairs = [
        (f"key {number}", f'{{"a": "{PLANTED}"}}' if number % 2 else PLANTED)
        for number in range(records)
    ]
    for at in range(0, records, 100):
        first.batch(at, pairs[at : at + 100], codec=at // 100 % 5)
    log.segment(records).batch(records, [("key 0", None), (None, PLANTED)])
    log.segment(records + 2)
    log.write()
    return forced_plan(log_dir, TopicPartition("t", 0), {"cleanup.policy": "compact"})


def test_survivors_are_read_back_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, whatever codec and segment; a tombstone is not checked; nothing is said of a
    value.
    """
    monkeypatch.setattr("logwright.assets.segments.values._CHUNK_RECORDS", 64)
    plan = planned_log(tmp_path / "logs", 1_000)
    facts = check_values(plan, build(plan), [contract(tmp_path, columns("a: {type: long}"))])
    assert 999 == facts.records == facts.checked
    wrong_type, not_json = facts.failures
    assert ("a: type long", 500, tuple(range(1, 21, 2))) == wrong_type[1:]
    assert ("value is json", 499, tuple(range(2, 22, 2))) == not_json[1:]
    assert "s3cret" not in repr(facts)


ASKED = {
    "n": ("{type: long, nullable: false, min_value: 2, max_value: 4}", 3),
    "v": ("{type: long, value_set: [3, 5]}", 5),
    "d": ("{type: double, min_value: 0.5, max_value: 1.5}", 1.0),
    "s": ("{type: string, regex: '[a-z]+', min_length: 2, max_length: 3}", "ab"),
    "b": ("{type: boolean}", True),
}
BREACHES = {
    "n: type long": ("n", "3"),
    "n: not null": ("n", None),
    "n: at least 2": ("n", 1),
    "n: at most 4": ("n", 9),
    "v: value_set": ("v", 4),
    "d: type double": ("d", True),
    "d: at least 0.5": ("d", 0),
    "d: at most 1.5": ("d", 2),
    "s: type string": ("s", 1),
    "s: regex": ("s", "AB"),
    "s: min_length 2": ("s", "a"),
    "s: max_length 3": ("s", "abcd"),
    "b: type boolean": ("b", "true"),
}


def test_each_rule_stops_an_output_that_breaks_it_alone(tmp_path: Path) -> None:
    """One surviving record of a real cleaning breaks each rule; its offset is in the answer."""
    good = {name: value for name, (_, value) in ASKED.items()}
    log = LogBuilder(tmp_path / "logs")
    segment = log.segment(0).batch(0, [("good", json.dumps(good))])
    rules = list(BREACHES)
    for offset, rule in enumerate(rules, 1):
        name, value = BREACHES[rule]
        segment.batch(offset, [(rule, json.dumps(good | {name: value}))], codec=offset % 5)
    segment.batch(len(rules) + 1, [("not json", "{")])
    log.segment(len(rules) + 2).batch(len(rules) + 2, [("good", json.dumps(good))])
    log.segment(len(rules) + 3)
    log.write()
    plan = forced_plan(log.log_dir, log.partition, {"cleanup.policy": "compact"})
    all_rules = ", ".join(f"{name}: {text}" for name, (text, _) in ASKED.items())
    facts = check_values(plan, build(plan), [contract(tmp_path, columns(all_rules))])
    expected = {rule: (1, (offset,)) for offset, rule in enumerate(rules, 1)}
    expected["value is json"] = (1, (len(rules) + 1,))
    assert expected == {one.rule: (one.records, one.offsets) for one in facts.failures}
    assert len(rules) + 2 == facts.checked == facts.records


def test_a_large_log_is_sampled_by_key(tmp_path: Path) -> None:
    """About as many as the contract says; the same again for the same plan."""
    plan = planned_log(tmp_path / "logs", 5_000)
    sampled = contract(tmp_path, "{format: json, max_records: 500, columns: {a: {type: string}}}")
    staged = build(plan)
    facts = check_values(plan, staged, [sampled])
    assert 4_999 == facts.records
    assert 350 < facts.checked < 650
    assert facts == check_values(plan, staged, [sampled])
