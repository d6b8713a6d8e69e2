"""The verdicts of all checks on the output of logs, from what was read back from it. Nothing here
knows Dagster: a Spark task judges a log in a bucket before it commits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from logwright.assets.lib.verdict import LOG_PROFILE, PASSED, Severity, Verdict
from logwright.assets.segments.contract import contract_verdicts
from logwright.assets.segments.expectations import Suite, profile_verdicts, with_limits
from logwright.assets.segments.profile import log_profiles
from logwright.assets.segments.profile_tests import entry_tests
from logwright.checks.model import CHECK_NAMES, OutputFacts, refusal
from logwright.config.policies import Policies
from logwright.errors import InvariantError, LogwrightError, invariant
from logwright.place.model import AnyPlace, Place
from logwright.sweep.model import LogWork, SweepState, planned


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdicts of all checks on a state.

    Attributes:
        verdicts: by log key, one for each check that was made; logs that nothing was staged for are
            not in it.
        failures: by log key, why a log must not be swapped.
        data_docs: page of this run in the Great Expectations site, None if nothing was examined.
    """

    verdicts: Mapping[str, tuple[Verdict, ...]]
    failures: Mapping[str, LogwrightError]
    data_docs: Path | None

    def applied_to(self, state: SweepState[AnyPlace]) -> SweepState[AnyPlace]:
        """Return the state with what the checks found in each log, and with the logs that failed
        one.
        """
        works = (
            replace(
                work,
                checked={
                    verdict.check: PASSED if verdict.passed else verdict.sentence
                    for verdict in self.verdicts.get(work.key, ())
                },
            )
            for work in state.works
        )
        return state.with_works(works).with_failures(self.failures)


def judge(
    state: SweepState[Place],
    policies: Policies,
    values: Mapping[str, Verdict],
    *,
    storage: Path | None,
    run_name: str,
) -> Judgement:
    """Judge what was read back from the staged output. Effects: writes Data Docs below
    `storage`.

    Args:
        state: the logs.
        policies: thresholds and tests.
        values: log key → verdict on its decoded values, if any were checked.
        storage: directory of the Dagster instance; None: no Data Docs are written.
        run_name: name of the run in the Data Docs.
    """
    works = [work for work in state.going_on if work.facts is not None]
    if not works:
        return Judgement(verdicts={}, failures={}, data_docs=None)
    contracts = contract_verdicts(
        [row for work in works for row in _contract_rows(work)],
        [work.key for work in works],
    )
    profiles = with_limits(
        log_profiles({work.key: _facts(work) for work in works}),
        policy=policies.expectations,
        max_message_bytes={work.key: planned(work).config.max_message_bytes for work in works},
    )
    topics = {work.key: work.partition.topic for work in works}
    severities = {
        key: policies.labels_for(topic).severity or "ERROR" for key, topic in topics.items()
    }
    published = profile_verdicts(
        profiles,
        suite=Suite(
            policy=policies.expectations,
            entries=entry_tests(policies, topics),
            severities=severities,
        ),
        storage=storage,
        run_name=run_name,
    )
    verdicts = {
        work.key: (
            *check_verdicts(_facts(work)),
            contracts[work.key],
            published.verdicts.get(work.key) or _without_profile(work, severities[work.key]),
            *([values[work.key]] if work.key in values else []),
        )
        for work in works
    }
    return Judgement(
        verdicts=verdicts, failures=_failures(works, verdicts), data_docs=published.page
    )


def _failures(
    works: Iterable[LogWork[Place]], verdicts: Mapping[str, tuple[Verdict, ...]]
) -> dict[str, LogwrightError]:
    """Return why logs must not be swapped."""
    stopped = {
        work.key: [verdict.sentence for verdict in verdicts[work.key] if verdict.stops]
        for work in works
    }
    return {
        work.key: refusal(planned(work), stopped[work.key]) for work in works if stopped[work.key]
    }


def check_verdicts(facts: OutputFacts) -> tuple[Verdict, ...]:
    """Return one verdict for each check.

    Raises:
        InvariantError: a check was not made, which must not count as passed.
    """
    made = tuple(result.name for result in facts.checks)
    invariant(made == CHECK_NAMES, f"the checks made are {made}")
    return tuple(
        Verdict(
            check=result.name,
            violations=result.violations,
            first_offset=result.first_offset,
            details={"records read back": sum(segment.records for segment in facts.segments)},
        )
        for result in facts.checks
    )


def _contract_rows(work: LogWork[Place]) -> list[dict[str, object]]:
    if work.staged is None:
        raise InvariantError(f"{work.key} has facts, but nothing was staged")
    last_mapped_offset = work.staged.last_mapped_offset
    return [
        segment._asdict() | {"topic_partition": work.key, "last_mapped_offset": last_mapped_offset}
        for segment in _facts(work).segments
    ]


def _without_profile(work: LogWork[Place], severity: Severity) -> Verdict:
    """Return the verdict on a log of which no segment was read back: right only if none was
    written.
    """
    expected = _facts(work).expected_records
    return Verdict(
        check=LOG_PROFILE,
        violations=int(expected > 0),
        broken=("as many records are read back as were written",) if expected else (),
        severity=severity,
    )


def _facts(work: LogWork[Place]) -> OutputFacts:
    if work.facts is None:
        raise InvariantError(f"{work.key} was not examined")
    return work.facts
