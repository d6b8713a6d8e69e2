"""The value contracts of the topics' entries, on the records that survive a compaction.

1. A Spark task reads the records of a log's staged and unchanged segments (`logwright.records`).
   The output of a log with many records is sampled by a hash of the key that differs from cleaning
   to cleaning.
2. The values are decoded (`logwright.decode`), and pandera validates them in chunks of a bounded
   size (`value_frames`).
3. What comes back are counts and offsets for each rule: never a value.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from logwright.assets.lib.verdict import VALUE_CONTRACT, Severity, Verdict
from logwright.batches.source import Source
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.config.topic_tests import ValueContract
from logwright.errors import LogwrightError
from logwright.format.names import LOG, segment_file_name
from logwright.format.scan import scan_segment
from logwright.place.mapped import MappedFiles
from logwright.records.model import Selection
from logwright.sweep.model import LogWork, SweepState, planned
from logwright.sweep.stages import brokers_kept_out
from logwright.units import INT64_MAX

if TYPE_CHECKING:
    import pyarrow as pa

    from logwright.assets.segments.value_frames import Schemas
    from logwright.batches.runtime import Runtime
    from logwright.config.policies import Policies
    from logwright.sweep.executor import Executor

_COLUMNS: Final = ("key", "value", "offset")
_CHUNK_RECORDS: Final = 5_000
_CHUNK_BYTES: Final = 8 << 20
_SHOWN_OFFSETS: Final = 10
_HASHES: Final = 1 << 32


class RuleFailures(NamedTuple):
    """The records that break one rule of a contract.

    Attributes:
        contract: number of the contract.
        offsets: the first ones, ascending.
    """

    contract: int
    rule: str
    records: int
    offsets: tuple[int, ...]


class ValueFacts(NamedTuple):
    """What a log's contracts found.

    Attributes:
        records: survivors with a value.
        checked: how many of them were checked, by the contract that checked the fewest.
    """

    records: int
    checked: int
    failures: tuple[RuleFailures, ...]


def contracts_of(policies: Policies, topic: str) -> tuple[tuple[ValueContract, Severity], ...]:
    """Return the contracts of all entries for a topic, and the severity of each."""
    of_topic = policies.labels_for(topic).severity or "ERROR"
    return tuple(
        (test, test.severity or of_topic)
        for entry in policies.entries_for(topic)
        for test in entry.tests
        if isinstance(test, ValueContract)
    )


def value_verdicts(
    state: SweepState, policies: Policies, executor: Executor
) -> tuple[SweepState, dict[str, Verdict]]:
    """Check the output of every log that has a contract, while no broker can start on it. Effects:
    reads it; locks.

    Returns:
        the state, in which logs failed whose directory could not be locked; log key → verdict, for
        logs of which a value was checked or could not be read.
    """
    examined = [work for work in state.going_on if work.facts is not None]
    contracts = {work.key: contracts_of(policies, work.partition.topic) for work in examined}
    verdicts: dict[str, Verdict] = {}
    failed: list[LogWork] = []
    with_contracts = [work for work in examined if contracts[work.key]]
    with brokers_kept_out(with_contracts, failed) as works:
        calls = [
            (planned(work), work.staged, tuple(one for one, _ in contracts[work.key]))
            for work in works
        ]
        left = iter(works)
        for results in executor.call_each(check_values, calls):
            for facts in results:
                work = next(left)
                severities = [severity for _, severity in contracts[work.key]]
                if isinstance(facts, LogwrightError) or facts.checked:
                    verdicts[work.key] = _verdict(facts, severities)
    return state.with_works(failed), verdicts


def value_verdict(
    work: LogWork, contracts: Sequence[tuple[ValueContract, Severity]], runtime: Runtime
) -> Verdict | None:
    """Return the verdict on the values of one log that was built, None if none was checked.
    Effects: reads its output.
    """
    facts: ValueFacts | LogwrightError
    if work.staged is None:
        return None
    try:
        contracts_alone = tuple(one for one, _ in contracts)
        facts = check_values(planned(work), work.staged, contracts_alone, runtime=runtime)
    except LogwrightError as error:
        facts = error
    if isinstance(facts, LogwrightError) or facts.checked:
        return _verdict(facts, [severity for _, severity in contracts])
    return None


def check_values(
    plan: CleanPlan,
    staged: StagedCleaning,
    contracts: Sequence[ValueContract],
    *,
    runtime: Runtime | None = None,  # noqa: ARG001 - an executor passes it to every stage
) -> ValueFacts:
    """Check the values of one log's output. Effects: reads it.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: it cannot be read.
    """
    from logwright.assets.segments.value_frames import schemas_of  # noqa: PLC0415 - pandera takes a second

    share = _HASHES / max(staged.stats.records_written, 1)
    seed = zlib.crc32(plan.plan_id.encode())
    checks = [
        _Check(number=number, schemas=schemas_of(contract), below=contract.max_records * share)
        for number, contract in enumerate(contracts)
    ]
    records = 0
    for batch in _survivors(plan, staged):
        records += len(batch)
        rows = zip(*(batch[name].to_pylist() for name in _COLUMNS), strict=True)
        for key, value, offset in rows:
            hashed = zlib.crc32(offset.to_bytes(8, "big") if key is None else key, seed)
            for check in checks:
                check.offer(hashed, offset, value)
    for check in checks:
        check.finish()
    return ValueFacts(
        records=records,
        checked=min(check.checked for check in checks),
        failures=tuple(found for check in checks for found in check.broken()),
    )


@dataclass(slots=True, kw_only=True)
class _Check:
    """A contract, and the records that wait to be validated.

    Attributes:
        below: a record is checked if the hash of its key is below this.
        failed: rule → (number of records, their first offsets).
        nearest: hash, offset and value of the record outside the sample with the smallest hash.
    """

    number: int
    schemas: Schemas
    below: float
    checked: int = 0
    waiting: list[tuple[int, bytes]] = field(default_factory=list)
    waiting_bytes: int = 0
    failed: dict[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    nearest: tuple[int, int, bytes] | None = None

    def offer(self, hashed: int, offset: int, value: bytes) -> None:
        """Take a record if its hash is in the sample."""
        if hashed < self.below:
            self.add(offset, value)
        elif self.nearest is None or hashed < self.nearest[0]:
            self.nearest = (hashed, offset, value)

    def finish(self) -> None:
        """Validate what waits; if the sample is empty, the record that came nearest to it."""
        if not self.checked and not self.waiting and self.nearest is not None:
            self.add(*self.nearest[1:])
        self.validate()

    def add(self, offset: int, value: bytes) -> None:
        """Take a record."""
        self.waiting.append((offset, value))
        self.waiting_bytes += len(value)
        if len(self.waiting) >= _CHUNK_RECORDS or self.waiting_bytes >= _CHUNK_BYTES:
            self.validate()

    def validate(self) -> None:
        """Validate what waits."""
        from logwright.assets.segments.value_frames import failures  # noqa: PLC0415 - as above

        for rule, offset in failures(self.schemas, self.waiting):
            records, offsets = self.failed.get(rule, (0, ()))
            self.failed[rule] = (records + 1, tuple(sorted((*offsets, offset))[:_SHOWN_OFFSETS]))
        self.checked += len(self.waiting)
        self.waiting = []
        self.waiting_bytes = 0

    def broken(self) -> Iterator[RuleFailures]:
        """Yield the rules that were broken."""
        for rule, (records, offsets) in sorted(self.failed.items()):
            yield RuleFailures(contract=self.number, rule=rule, records=records, offsets=offsets)


def _survivors(plan: CleanPlan, staged: StagedCleaning) -> Iterator[pa.RecordBatch]:
    """Yield the records of the output that have a value, ascending. Effects: reads it."""
    from logwright.records.read import read_sources  # noqa: PLC0415 - Arrow takes a while

    return read_sources(
        _sources(plan, staged),
        partition=plan.log.partition,
        offsets=(0, INT64_MAX),
        columns=_COLUMNS,
        batch_rows=_CHUNK_RECORDS,
        batch_bytes=_CHUNK_BYTES,
        selection=Selection(skip_tombstones=True),
    )


def _sources(plan: CleanPlan, staged: StagedCleaning) -> Iterator[Source]:
    """Yield the segments of the output, ascending. Effects: maps the files."""
    files = MappedFiles()
    segments = {
        **{
            segment.base_offset: (staged.directory, segment.log_bytes)
            for segment in staged.segments
        },
        **{
            segment.base_offset: (plan.log.directory, segment.log_bytes)
            for segment in staged.unchanged
        },
    }
    for base_offset, (directory, size) in sorted(segments.items()):
        path = directory / segment_file_name(base_offset, LOG)
        log = files.open(path, expected_bytes=size)
        batches = scan_segment(log.data, path, base_offset=base_offset, end_offset=INT64_MAX)
        yield Source(base_offset=base_offset, log=log, batches=batches)


def _verdict(facts: ValueFacts | LogwrightError, severities: Sequence[Severity]) -> Verdict:
    """Return the verdict on one log. `severities`: of its contracts."""
    if isinstance(facts, LogwrightError):
        broken = f"the output could not be read: {type(facts).__name__}"
        return Verdict(check=VALUE_CONTRACT, violations=1, broken=(broken,))
    details: dict[str, int | float | str] = {
        "records checked": facts.checked,
        "records with a value": facts.records,
    }
    for failure in facts.failures:
        shown = ", ".join(map(str, failure.offsets))
        details[failure.rule] = (
            f"{severities[failure.contract]}: records {failure.records}, first offsets {shown}"
        )
    broken_severities = {severities[one.contract] for one in facts.failures}
    return Verdict(
        check=VALUE_CONTRACT,
        violations=sum(one.records for one in facts.failures),
        first_offset=min((one.offsets[0] for one in facts.failures), default=None),
        broken=tuple(dict.fromkeys(one.rule for one in facts.failures)),
        severity="WARN" if broken_severities == {"WARN"} else "ERROR",
        details=details,
    )
