"""The Great Expectations suite on the logs' profiles, and its Data Docs.

A profile is one row per log (`profile`), so the suite takes a third of a second per run, instead of
half a minute for a million records. Great Expectations is imported on first use, because the import
takes seconds.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from logwright import durable
from logwright.assets.lib.verdict import LOG_PROFILE, Severity, Verdict
from logwright.assets.segments.profile_tests import EntryTests, observed, severity_of, with_entries
from logwright.config.policy_models import Expectations
from logwright.format.codec import CODEC_NAMES

if TYPE_CHECKING:
    import pandas as pd

SITE_DIRECTORY: Final = "great_expectations"
KEPT_RUNS: Final = 200
"""Number of runs in the Data Docs; older ones are removed, because rendering time grows with their
number."""

_STYLES: Final = Path(__file__).with_name("data_docs.css")
_MAX_CODEC: Final = len(CODEC_NAMES) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The result of a run of the suite.

    Attributes:
        verdicts: log key → verdict.
        page: the page of this run's result in the Data Docs, None if there are none.
    """

    verdicts: Mapping[str, Verdict]
    page: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """What is asked of the profiles.

    Attributes:
        policy: thresholds for all logs.
        entries: the expectations of the topics' entries.
        severities: log key → severity of its topic.
    """

    policy: Expectations
    entries: tuple[EntryTests, ...]
    severities: Mapping[str, Severity]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Broken:
    """A rule that a log breaks."""

    rule: str
    severity: Severity


def with_limits(
    profiles: pd.DataFrame,
    *,
    policy: Expectations,
    max_message_bytes: Mapping[str, int],
) -> pd.DataFrame:
    """Return the profiles with each log's limits as additional columns.

    Args:
        profiles: one row per log.
        policy: thresholds.
        max_message_bytes: log key → `max.message.bytes` of its topic.
    """
    largest = profiles["topic_partition"].map(max_message_bytes)
    return profiles.assign(
        allowed_batch_bytes=largest.clip(lower=policy.max_largest_batch_bytes),
        allowed_bytes=(profiles["source_bytes"] * policy.max_growth_share).round().astype("int64"),
        tombstone_share=profiles["tombstones"] / profiles["records"].clip(lower=1),
        kept_records_share=profiles["records"] / profiles["source_records"].clip(lower=1),
        kept_bytes_share=profiles["log_bytes"] / profiles["source_bytes"].clip(lower=1),
    )


def profile_verdicts(
    profiles: pd.DataFrame,
    *,
    suite: Suite,
    storage: Path | None,
    run_name: str,
) -> Published:
    """Run the suite on profiles with their limits. Effects: writes validation results and Data Docs
    below `storage`; nothing without one.
    """
    gx = _great_expectations()
    if storage is None:
        context = gx.get_context(mode="ephemeral")
        result = _run_suite(context, with_entries(profiles, suite.entries), suite, run_name)
        return Published(verdicts=_verdicts(result, profiles, suite), page=None)
    root = storage / SITE_DIRECTORY
    root.mkdir(parents=True, exist_ok=True)
    context = gx.get_context(mode="file", project_root_dir=root)
    _give_styles(root)
    entries = with_entries(profiles, suite.entries)
    result = _run_suite(context, entries, suite, run_name, with_docs=True)
    _forget_old_runs(root)
    (identifier,) = result.run_results
    return Published(
        verdicts=_verdicts(result, profiles, suite),
        page=_site(root).joinpath("validations", *identifier.to_tuple()).with_suffix(".html"),
    )


def _site(root: Path) -> Path:
    """Return the directory of the Data Docs."""
    return root / "gx" / "uncommitted" / "data_docs" / "local_site"


def _give_styles(root: Path) -> None:
    """Let pages be read where the internet, which has their styles and icons, cannot be reached.
    Effects: writes the file of custom styles, which Great Expectations has made empty.
    """
    custom = root.joinpath(
        "gx", "plugins", "custom_data_docs", "styles", "data_docs_custom_styles.css"
    )
    styles = _STYLES.read_bytes()
    if not custom.is_file() or custom.read_bytes() != styles:
        durable.replace(custom, styles)


def _great_expectations() -> Any:  # noqa: ANN401 - the library exports nothing that mypy can see
    """Import the library without its usage events. Effects: an import that takes seconds."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    return importlib.import_module("great_expectations")


def import_in_background() -> None:
    """Import the library in a thread: it takes seconds, about as long as Spark takes to
    start, for which this process only waits. An error is raised where it is used.
    Effects: a thread that ends by itself.
    """

    def load() -> None:
        with suppress(ImportError):
            _great_expectations()
            importlib.import_module("great_expectations.expectations")

    Thread(target=load, name="import of great_expectations", daemon=True).start()


def _run_suite(
    context: Any,  # noqa: ANN401 - as above
    profiles: pd.DataFrame,
    suite: Suite,
    run_name: str,
    *,
    with_docs: bool = False,
) -> Any:  # noqa: ANN401 - as above
    gx = _great_expectations()
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    source = context.data_sources.add_or_update_pandas("staged")
    batch = source.add_dataframe_asset("profile").add_batch_definition_whole_dataframe("whole")
    expectations = [*_expectations(suite.policy), *_entry_expectations(suite.entries)]
    stored_suite = context.suites.add_or_update(
        gx.ExpectationSuite(name=LOG_PROFILE, expectations=expectations)
    )
    validation = context.validation_definitions.add_or_update(
        gx.ValidationDefinition(name=LOG_PROFILE, data=batch, suite=stored_suite)
    )
    checkpoint = context.checkpoints.add_or_update(
        gx.Checkpoint(
            name=LOG_PROFILE,
            validation_definitions=[validation],
            actions=[gx.checkpoint.UpdateDataDocsAction(name="data_docs")] if with_docs else [],
            result_format={
                "result_format": "COMPLETE",
                "unexpected_index_column_names": ["topic_partition"],
            },
        )
    )
    return checkpoint.run(
        batch_parameters={"dataframe": profiles},
        run_id=gx.RunIdentifier(run_name=run_name),
    )


def _expectations(policy: Expectations) -> list[Any]:
    gxe = importlib.import_module("great_expectations.expectations")

    def at_most(column: str, limit_column: str, note: str) -> Any:  # noqa: ANN401 - of a library without types
        return gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A=limit_column, column_B=column, or_equal=True, notes=note, meta={"rule": note}
        )

    def within(column: str, least: float | None, most: float | None, note: str) -> Any:  # noqa: ANN401
        return gxe.ExpectColumnValuesToBeBetween(
            column=column, min_value=least, max_value=most, notes=note, meta={"rule": note}
        )

    def equal(column: str, expected_column: str, note: str) -> Any:  # noqa: ANN401
        return gxe.ExpectColumnPairValuesToBeEqual(
            column_A=column, column_B=expected_column, notes=note, meta={"rule": note}
        )

    return [
        equal("records", "expected_records", "as many records are read back as were written"),
        equal("log_bytes", "expected_bytes", "as many bytes are read back as were written"),
        at_most("records", "source_records", "no more records than the source has"),
        at_most(
            "log_bytes", "allowed_bytes", "not larger than the policy allows (max_growth_share)"
        ),
        at_most(
            "largest_batch_bytes",
            "allowed_batch_bytes",
            "no batch above max.message.bytes and max_largest_batch_bytes",
        ),
        within(
            "largest_segment_bytes",
            0,
            policy.max_segment_log_bytes,
            "no segment above max_segment_log_bytes",
        ),
        within(
            "tombstone_share",
            0.0,
            policy.max_tombstone_share,
            "share of tombstones within max_tombstone_share",
        ),
        within("max_codec", 0, _MAX_CODEC, "codecs are known"),
    ]


def _entry_expectations(entries: Iterable[EntryTests]) -> list[Any]:
    """Return the expectations of the entries, each for the logs that its entry is about."""
    gxe = importlib.import_module("great_expectations.expectations")
    conditions = importlib.import_module("great_expectations.expectations.row_conditions")
    return [
        getattr(gxe, test.kind.title().replace("_", ""))(
            **test.arguments,
            row_condition=conditions.Column(entry.column) == 1,
            description=f"{test.title}, asked of {entry.label}",
            meta={"rule": test.title, "entry": entry.column, "test": number},
        )
        for entry in entries
        for number, test in enumerate(entry.tests)
    ]


def _verdicts(
    result: Any,  # noqa: ANN401 - as above
    profiles: pd.DataFrame,
    suite: Suite,
) -> dict[str, Verdict]:
    rows = {str(row["topic_partition"]): row for row in profiles.to_dict("records")}
    entries = {entry.column: entry for entry in suite.entries}
    broken: dict[str, list[_Broken]] = {key: [] for key in rows}
    details: dict[str, dict[str, int | float | str]] = {key: {} for key in rows}
    for validation in result.run_results.values():
        for expectation in validation.results:
            meta = expectation.expectation_config.meta
            rule, entry = str(meta["rule"]), entries.get(meta.get("entry", ""))
            test = None if entry is None else entry.tests[meta["test"]]
            keys = rows.keys() if entry is None else entry.keys & rows.keys()
            offenders = () if expectation.success else _offenders(expectation, keys)
            for key in offenders:
                severity = suite.severities[key]
                if test is not None:
                    severity = severity_of(test, severity)
                broken[key].append(_Broken(rule=rule, severity=severity))
            if test is not None:
                for key in keys:
                    outcome = "failed" if key in offenders else "passed"
                    details[key][rule] = f"{outcome}: observed {observed(rows[key], test)}"
    return {
        key: Verdict(
            check=LOG_PROFILE,
            violations=len(rules),
            broken=tuple(sorted(one.rule for one in rules)),
            severity=_severity(rules, suite.severities[key]),
            details=details[key],
        )
        for key, rules in broken.items()
    }


def _offenders(
    expectation: Any,  # noqa: ANN401 - as above
    keys: Collection[str],
) -> frozenset[str]:
    """Return the logs that break an expectation: all, if it could not be evaluated."""
    indices = expectation.result.get("unexpected_index_list")
    return frozenset(str(row["topic_partition"]) for row in indices) if indices else frozenset(keys)


def _severity(broken: Collection[_Broken], of_topic: Severity) -> Severity:
    """Return the highest severity of what is broken; the topic's if nothing is."""
    if not broken:
        return of_topic
    return "ERROR" if any(one.severity == "ERROR" for one in broken) else "WARN"


def _forget_old_runs(root: Path) -> None:
    """Remove the results and pages of all but the newest runs. Effects: removes files."""
    uncommitted = root / "gx" / "uncommitted"
    for runs in (
        uncommitted / "validations" / LOG_PROFILE,
        uncommitted / "data_docs" / "local_site" / "validations" / LOG_PROFILE,
    ):
        if runs.is_dir():
            newest_first = sorted(
                runs.iterdir(), key=lambda run: run.stat().st_mtime_ns, reverse=True
            )
            for run in newest_first[KEPT_RUNS:]:
                shutil.rmtree(run)
