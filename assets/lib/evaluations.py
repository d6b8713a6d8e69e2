"""The results of the checks as Dagster's events.

Storing an event takes Dagster some milliseconds, and a sweep has eight checks for each log. So the
logs that pass a check share one evaluation, which lists them, and each log that fails one has an
evaluation with its own partition (docs/adr/0025).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import dagster as dg

from logwright.assets.lib.report import Metadata, table
from logwright.assets.lib.verdict import PASSED, Verdict

NAMED_LOGS: Final = 5
"""Maximum failed logs in an evaluation's description."""
NOTHING_STAGED: Final = "No output was staged, so there was nothing to check."


def evaluations_of(
    asset_key: dg.AssetKey,
    checks: Iterable[str],
    judged: Mapping[str, Sequence[Verdict]],
    *,
    unstaged: Sequence[str] = (),
    blocking: bool = False,
    more: Mapping[str, Metadata] = MappingProxyType({}),
) -> Iterable[dg.AssetCheckEvaluation]:
    """Yield the evaluations of every check that was made.

    A run with one log has one evaluation for each check, with the log's partition. With several
    logs there is one for each that failed, then one without partition for all. A check that no
    log had anything for has none: Dagster shows it as not executed.

    Args:
        asset_key: whose checks they are.
        checks: their names.
        judged: log key → verdicts of the checks that were made.
        unstaged: keys of the logs that there was nothing to check of.
        blocking: of the evaluations of single logs.
        more: check → more metadata.
    """
    alone = len(judged) + len(unstaged) == 1
    for check in checks:
        verdicts = {
            key: verdict
            for key, of_log in judged.items()
            for verdict in of_log
            if verdict.check == check
        }
        if not verdicts:
            continue
        extra = more.get(check, {})
        for key, verdict in verdicts.items():
            if alone or not verdict.passed:
                yield dg.AssetCheckEvaluation(
                    asset_key=asset_key,
                    check_name=check,
                    passed=verdict.passed,
                    partition=key,
                    blocking=blocking,
                    severity=dg.AssetCheckSeverity[verdict.severity],
                    description=_sentence(verdict),
                    metadata=_metadata(verdict) | extra,
                )
        if not alone:
            yield _together(dg.AssetCheckKey(asset_key, check), verdicts, unstaged, extra)


def _sentence(verdict: Verdict) -> str:
    return verdict.sentence if verdict.passed else f"{verdict.sentence}. {verdict.next_step}"


def _metadata(verdict: Verdict) -> Metadata:
    metadata: Metadata = {} if verdict.passed else {"next step": verdict.next_step}
    metadata |= {"violations": verdict.violations, **verdict.details}
    if verdict.first_offset is not None:
        metadata["first offending offset"] = verdict.first_offset
    if verdict.broken:
        metadata["broken rules"] = "; ".join(verdict.broken)
    return metadata


def _together(
    check: dg.AssetCheckKey,
    verdicts: Mapping[str, Verdict],
    unstaged: Sequence[str],
    extra: Metadata,
) -> dg.AssetCheckEvaluation:
    """Return the evaluation of a check of all logs of a run: it fails if one of them does."""
    failed = {key: verdict for key, verdict in verdicts.items() if not verdict.passed}
    warns = all(verdict.severity == "WARN" for verdict in failed.values())
    rows = [
        *((key, verdict.sentence) for key, verdict in failed.items()),
        *((key, PASSED) for key, verdict in verdicts.items() if verdict.passed),
        *((key, NOTHING_STAGED) for key in unstaged),
    ]
    steps = dict.fromkeys(verdict.next_step for verdict in failed.values())
    metadata: Metadata = {
        **({"next step": " ".join(steps)} if failed else {}),
        "logs": table(("log", "result"), rows),
        "logs checked": len(verdicts),
        "logs failed": len(failed),
        "logs without output": len(unstaged),
        "violations": sum(verdict.violations for verdict in verdicts.values()),
        **_sums(verdicts.values()),
    }
    return dg.AssetCheckEvaluation(
        asset_key=check.asset_key,
        check_name=check.name,
        passed=not failed,
        blocking=False,
        severity=dg.AssetCheckSeverity.WARN if failed and warns else dg.AssetCheckSeverity.ERROR,
        description=" ".join((_description(len(verdicts), list(failed), len(unstaged)), *steps)),
        metadata=metadata | extra,
    )


def _sums(verdicts: Iterable[Verdict]) -> Counter[str]:
    """Return the sums of the figures of all logs, by name."""
    sums: Counter[str] = Counter()
    for verdict in verdicts:
        sums.update({name: one for name, one in verdict.details.items() if isinstance(one, int)})
    return sums


def _description(checked: int, failed: Sequence[str], unstaged: int) -> str:
    if not failed:
        if checked == 1:
            return "The log that was checked passed."
        others = f" that were checked passed; {unstaged:,} had no output" if unstaged else " passed"
        return f"All {checked:,} logs{others}."
    names = ", ".join(failed[:NAMED_LOGS])
    more = len(failed) - NAMED_LOGS
    return f"{len(failed):,} of {checked:,} logs failed: {names}" + (
        f" and {more:,} more." if more > 0 else "."
    )
