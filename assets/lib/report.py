"""What steps of several domains show: tables, recoveries, the cluster's metadata. Numbers and
names, never a record's key or value.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import dagster as dg

from logwright.assets.lib.human import human_bytes
from logwright.config.resolved import disagreements
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError
from logwright.place.model import Place
from logwright.resources.log_dirs import MaintainedLog
from logwright.sweep.model import LogWork, SweepState
from logwright.times import duration

_KIB: Final = 1024
_UNITS: Final = {"seconds": " s", "percent": " %"}
_SHARES: Final = frozenset({"reduction", "error"})
"""The last words of the names of shares: of bytes, of a forecast."""
SHOWN_LOGS: Final = 100
"""Maximum rows of a table in a step's metadata; the counts are always complete."""

Metadata = dict[str, Any]


def table(
    names: Sequence[str], rows: Iterable[Sequence[object]], *, most: int = SHOWN_LOGS
) -> dg.TableMetadataValue:
    """Return a table of the first rows, which Dagster shows in place; one of Markdown only after a
    click.

    Args:
        names: of the columns.
        rows: of cells: numbers stay numbers, all else is text.
        most: rows that are shown.
    """
    return dg.MetadataValue.table(
        [
            dg.TableRecord(dict(zip(names, map(_cell, row), strict=True)))
            for row in islice(rows, most)
        ],
        schema=dg.TableSchema([dg.TableColumn(name) for name in names]),
    )


def unplotted(metadata: Mapping[str, Any]) -> Metadata:
    """Return the metadata of a partition with its numbers as text, with their units.

    Dagster plots each number of a partitioned asset, with a line from partition to partition. These
    are different logs, so the line would say nothing. What was done to one log over time is in the
    maintenance history, in numbers.
    """
    return {name: _text(name, value) for name, value in metadata.items()}


def _text(name: str, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    words = name.split()
    if "bytes" in words:
        exact = f" ({value:,} B)" if abs(value) >= _KIB else ""
        return f"{human_bytes(value)}{exact}"
    if name == "max-compaction-delay":
        return duration(int(value))
    if words[-1] in _SHARES:
        return f"{value:.2%}"
    unit = next((unit for word, unit in _UNITS.items() if word in words), "")
    plain = isinstance(value, float) or "offset" in words
    return f"{value}{unit}" if plain else f"{value:,}{unit}"


def rows_table(
    rows: Iterable[Mapping[str, Any]], *, most: int = SHOWN_LOGS
) -> dg.TableMetadataValue:
    """Return the first rows, by column, as a table; there must be one."""
    return dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in islice(rows, most)])


def _cell(value: object) -> str | int | float:
    return value if isinstance(value, int | float) else str(value)


def recovery_metadata(state: SweepState[Place]) -> Metadata:
    """Return what was recovered before planning, and why."""
    findings = {work.key: work.recovered for work in state.works if work.recovered is not None}
    if not findings:
        return {}
    rows = [(key, "; ".join(repairs) or "nothing to repair") for key, repairs in findings.items()]
    return {"recovered": len(findings), "recoveries": table(("log", "recovered"), rows)}


def metadata_in_use(
    settings: DirectorySettings, logs: Iterable[MaintainedLog | LogWork[Place]]
) -> Metadata:
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
