"""Kafka's own system tests of compaction and of transactions pass over logs that we clean while
their broker is stopped.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.broker_life import mended
from tests.e2e.command import call, free_port
from tests.e2e.kafka_tools import (
    COMPACT,
    FAILED,
    WAIT_SECONDS,
    Cleaned,
    CompactionTester,
    Copier,
    Verdict,
    clean_twice,
    committed,
    life,
    polled,
    records,
)

pytestmark = [pytest.mark.e2e, pytest.mark.oracle, pytest.mark.rotates(6, by="file")]

SHORT_MESSAGES = 2_000
"""Of the log that loses a record."""
DUPLICATES = 5
"""Times that a key is produced, on average: the tester's default."""
INPUT = 2_000
AGAIN = 40
"""Keys of every second record of the input; the others have keys of their own."""
HELD_AT, AT_MOST = 400, 1_000
"""Records that the first copier has copied when the broker stops, and in all."""
READ = 700
"""Records of the input that a group has read and committed when the broker stops."""
GROUPS = (Copier.GROUP, "reader")
INTERNAL = ("__consumer_offsets-0", "__transaction_state-0")
COPIED = ("input-0", "output-0")

Rows = list[tuple[int, bytes, bytes]]
"""Offset, key and value of records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How much the test does.

    Attributes:
        codecs: of the logs that Kafka's tester writes.
        messages: that it produces to each.
    """

    codecs: tuple[str, ...]
    messages: int


FORMS = [
    pytest.param(Form(codecs=("lz4",), messages=100_000), id="one codec"),
    pytest.param(
        Form(codecs=("none", "gzip", "snappy", "lz4", "zstd"), messages=500_000),
        marks=pytest.mark.nightly,
        id="all codecs",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What the tools saw of a broker whose logs we cleaned while it was stopped.

    Attributes:
        form: how much was done.
        untouched: no cleaner had left a checkpoint before we cleaned.
        cleaned: what `clean` did to each log.
        testers: by codec, the log and what Kafka's tester said of it.
        short: what it said of a log of which we took one record with a value away.
        held: what the first copier had committed, the output then, and the offset of the group.
        output: all of the output at the end.
        left: offsets of the records of the input that the cleaning left.
        copiers: exit status, standard error and records copied by each copier in its time.
        offsets: by group, what it had committed before the broker stopped and after it started.
        resumed_at: offset of the first record that the reading group got then.
        second_from: what the second copier found committed.
        batches: the data batches of the output at the end.
        said: what the broker logged in its second life.
    """

    form: Form
    untouched: bool
    cleaned: dict[str, Cleaned]
    testers: dict[str, tuple[str, Verdict]]
    short: Verdict
    held: Rows
    output: Rows
    left: list[int]
    copiers: list[tuple[int, str, int]]
    offsets: dict[str, tuple[int, int]]
    resumed_at: int
    second_from: int
    batches: list[dict[str, Any]]
    said: list[str]


def make_input(bootstrap: str) -> None:
    """The copiers' topics, and an input whose values are its offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, 1, 1, config=COMPACT) for name in ("input", "output")]
    for future in admin.create_topics(topics).values():
        future.result(WAIT_SECONDS)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(INPUT):
        key = f"again-{number % AGAIN}" if number % 2 else f"once-{number}"
        producer.produce("input", key=key, value=str(number))
    assert 0 == producer.flush(WAIT_SECONDS)


def reader(bootstrap: str) -> Consumer:
    """A member of a group that continues where the group has committed."""
    settings = {"group.id": "reader", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe(["input"])
    return consumer


def read_some(bootstrap: str) -> None:
    """The group reads and commits."""
    consumer = reader(bootstrap)
    for _ in range(READ):
        message = polled(consumer)
    consumer.commit(message, asynchronous=False)
    consumer.close()


def read_on(bootstrap: str) -> int:
    """The offset of the next record that the group gets."""
    consumer = reader(bootstrap)
    offset: int = polled(consumer).offset()
    consumer.close()
    return offset


def dumped(log_dir: Path, name: str) -> list[dict[str, Any]]:
    """The data batches of a log."""
    answer = call("dump", log_dir, name)
    assert 0 == answer.status, answer.err
    return [line for line in answer.lines if line["type"] == "batch" and not line["control"]]


def take_one_away(log_dir: Path, name: str) -> None:
    """Delete the first record that has a value, with what is before it."""
    batches = dumped(log_dir, name)
    valued = (one["offset"] for batch in batches for one in batch["records"] if one["value"])
    both = ("--config", "cleanup.policy=compact,delete", "--config", "retention.ms=-1")
    words = (*both, "--delete-records-before", next(valued) + 1, "--yes")
    answer = call("retain", log_dir, name, *words)
    assert 0 == answer.status, answer.err


def start_testers(
    stack: ExitStack, work: Path, bootstrap: str, form: Form
) -> dict[str, CompactionTester]:
    """One for each codec, by its name, and one for the log that loses a record."""
    wanted = [(codec, codec, form.messages) for codec in form.codecs]
    return {
        name: stack.enter_context(CompactionTester(work, name, bootstrap, codec, messages))
        for name, codec, messages in [*wanted, ("short", "none", SHORT_MESSAGES)]
    }


@pytest.fixture(scope="module", params=FORMS)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The whole story, once for all tests."""
    form: Form = request.param
    work = tmp_path_factory.mktemp("tools")
    port = free_port()
    log_dir = work / "broker" / "logs"
    with ExitStack() as stack:
        with life(work, "first", port) as bootstrap:
            testers = start_testers(stack, work, bootstrap, form)
            make_input(bootstrap)
            read_some(bootstrap)
            copier = Copier(work, "copier", bootstrap, most=AT_MOST, hold_at=HELD_AT)
            tools = (*testers.values(), stack.enter_context(copier))
            for tool in tools:
                tool.held()
            held = records(bootstrap, "output", at_least=HELD_AT)
            before = [committed(bootstrap, group) for group in GROUPS]
        untouched = not (log_dir / "cleaner-offset-checkpoint").exists()
        logs = {name: tester.log() for name, tester in testers.items()}
        names = (*INTERNAL, *COPIED, *logs.values())
        cleaned = clean_twice(log_dir, names, int(time.time() * 1000))
        take_one_away(log_dir, logs["short"])
        left = [one["offset"] for batch in dumped(log_dir, "input-0") for one in batch["records"]]
        with life(work, "second", port) as bootstrap:
            after = [committed(bootstrap, group) for group in GROUPS]
            for tool in tools:
                tool.go_on()
            resumed_at = read_on(bootstrap)
            copiers = [(copier.finish(), copier.errors(), copier.copied())]
            second_from = committed(bootstrap, Copier.GROUP)
            rest = sum(offset >= second_from for offset in left)
            second = Copier(work, "second copier", bootstrap, most=rest, hold_at=0)
            stack.enter_context(second).held()
            second.go_on()
            copiers.append((second.finish(), second.errors(), second.copied()))
            copied = copiers[0][2] - HELD_AT + copiers[1][2]
            output = records(bootstrap, "output", at_least=len(squeezed(held)) + copied)
            verdicts = {name: tester.verdict() for name, tester in testers.items()}
    lines = (work / "second.txt").read_text().splitlines()
    return Story(
        form=form,
        untouched=untouched,
        cleaned=cleaned,
        testers={name: (logs[name], verdicts[name]) for name in form.codecs},
        short=verdicts["short"],
        held=held,
        output=output,
        left=left,
        copiers=copiers,
        offsets={
            group: (first, then) for group, first, then in zip(GROUPS, before, after, strict=True)
        },
        resumed_at=resumed_at,
        second_from=second_from,
        batches=dumped(log_dir, "output-0"),
        said=[line for line in lines if "__cluster_metadata" not in line],
    )


def squeezed(rows: Rows) -> Rows:
    """The last record of each key."""
    return sorted({key: (offset, key, value) for offset, key, value in rows}.values())


def test_each_log_was_cleaned_and_by_us(story: Story) -> None:
    """The broker left all of every log to us; we removed records of each kind that there is."""
    assert story.untouched
    for name, cleaned in story.cleaned.items():
        assert 0 < cleaned.rewritten, name
        assert 0 < cleaned.reclaimed, name
        assert 0 < cleaned.removed["Superseded"], name
    for codec, (log, _) in story.testers.items():
        assert 0 < story.cleaned[log].removed["Tombstones"], codec


def test_kafkas_tester_finds_the_last_value_of_every_key(story: Story) -> None:
    """What it consumes is what we left, and is for every key what it produced last."""
    assert set(story.form.codecs) == set(story.testers)
    for codec, (log, verdict) in story.testers.items():
        assert (0, 0) == (verdict.status, verdict.mismatches), codec
        assert story.form.messages == verdict.produced, codec
        assert verdict.produced - story.cleaned[log].removed.total() == verdict.consumed, codec
        assert 0.7 * story.form.messages / DUPLICATES < verdict.values < verdict.consumed, codec


def test_kafkas_tester_notices_one_record_that_is_not_there(story: Story) -> None:
    """The same tester fails when a single record with a value was taken out of a cleaned log.

    It compares in the order of the keys, so that a key which is the last has nothing to differ
    from: then it says that values are left over.
    """
    assert 1 == story.short.status
    assert 0 < story.short.mismatches or story.short.missing


def test_groups_keep_their_offsets(story: Story) -> None:
    """What groups had committed they still have, and they continue there."""
    assert {"copier": (HELD_AT, HELD_AT), "reader": (READ, READ)} == story.offsets
    assert min(offset for offset in story.left if offset >= READ) == story.resumed_at


def test_a_transactional_producer_goes_on_without_a_fence(story: Story) -> None:
    """The copier that lived through it and a new one of its transactional id do all their work,
    under one producer id.
    """
    for status, output, _ in story.copiers:
        assert 0 == status, output
        assert FAILED not in output, output
    (survivor, second) = (copied for _, _, copied in story.copiers)
    assert survivor >= AT_MOST
    assert sum(offset >= story.second_from for offset in story.left) == second
    assert 1 == len({batch["producerId"] for batch in story.batches})


def test_the_output_has_every_record_of_the_input_once(story: Story) -> None:
    """Before the cleaning all that was there; after it no record twice, none out of its order, and
    none missing that the cleaning left.
    """
    assert list(range(HELD_AT)) == [int(value) for _, _, value in story.held]
    kept = squeezed(story.held)
    assert kept == story.output[: len(kept)]
    then = [int(value) for _, _, value in story.output[len(kept) :]]
    assert sorted(set(then)) == then
    assert then[0] >= HELD_AT
    assert {offset for offset in story.left if offset >= HELD_AT} <= set(then)
    by_the_second = then[-story.copiers[1][2] :]
    assert [offset for offset in story.left if offset >= story.second_from] == by_the_second


def test_the_broker_finds_nothing_to_put_right(story: Story) -> None:
    """It loads what we left as logs that were shut down cleanly."""
    assert [] == mended(story.said)
