"""What steps of several domains show: tables, recoveries, the cluster's metadata. Numbers and
names, never a record's key or value.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import dagster as dg

from logwright.config.resolved import disagreements
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError
from logwright.resources.log_dirs import MaintainedLog
from logwright.sweep.model import SweepState

SHOWN_LOGS: Final = 100
"""Maximum rows of a table in a step's metadata; the counts are always complete."""

Metadata = dict[str, Any]


def markdown_table(
    names: Sequence[str], rows: Iterable[Sequence[object]], *, most: int = SHOWN_LOGS
) -> dg.MarkdownMetadataValue:
    """Return a table of the first rows.

    Args:
        names: of the columns.
        rows: of cells, which are escaped.
        most: rows that are shown.
    """
    table = [names, ["---"] * len(names), *islice(rows, most)]
    lines = (" | ".join(_cell(str(cell)) for cell in row) for row in table)
    return dg.MetadataValue.md("\n".join(f"| {line} |" for line in lines))


def rows_table(
    rows: Iterable[Mapping[str, Any]], *, most: int = SHOWN_LOGS
) -> dg.TableMetadataValue:
    """Return the first rows, by column, as a table; there must be one."""
    return dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in islice(rows, most)])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def recovery_metadata(state: SweepState) -> Metadata:
    """Return what was recovered before planning, and why."""
    findings = {work.key: work.recovered for work in state.works if work.recovered is not None}
    if not findings:
        return {}
    rows = [(key, "; ".join(repairs) or "nothing to repair") for key, repairs in findings.items()]
    return {"recovered": len(findings), "recoveries": markdown_table(("log", "recovered"), rows)}


def metadata_in_use(settings: DirectorySettings, logs: Iterable[MaintainedLog]) -> Metadata:
    """Return the cluster metadata in use, and the entries of ``topics.yml`` that disagree with it
    on settings that delete data; empty without metadata. Effects: may read the metadata.
    """
    clusters, disagreeing = set(), set()
    for log_dir, topic in {(log.log_dir, log.partition.topic) for log in logs}:
        with suppress(LogwrightError):
            sources = settings.sources(log_dir)
            used = sources.metadata
            if used is not None:
                snapshot = used.snapshot or "no snapshot"
                clusters.add(
                    f"cluster {used.cluster_id} up to offset {used.end_offset}, {snapshot}"
                )
            disagreeing |= {f"- {topic}: {one.sentence}" for one in disagreements(sources, topic)}
    metadata: Metadata = {"cluster metadata": "; ".join(sorted(clusters))} if clusters else {}
    if disagreeing:
        shown = sorted(disagreeing)[:SHOWN_LOGS]
        metadata["policies that disagree with the cluster"] = dg.MetadataValue.md("\n".join(shown))
    return metadata
