"""What a Delta table asks of its writers, and whether logwright does it.

Delta's protocol ("Valid Feature Names in Table Features", "Requirements for Writers", "Table
Properties"): the protocol of a table names the features that a writer must know; properties and the
metadata of columns switch them on. Here is what logwright knows. Whatever else a table has of these
is refused by its name: a writer that does not know it would break what the table promises.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from logwright.tables.deletion_vectors import FEATURE
from logwright.tables.model import Asked

_KNOWN_FEATURES: Final = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        FEATURE,
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "invariants",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
    }
)
"""Those that are followed, or that ask for nothing until a property or a column switches them on:
that is refused below. No column of logwright is a variant; `deltalake` lists that feature whenever
it raises a protocol. Domains of metadata stay as they are: no commit of logwright has one."""
_LISTED: Final = (3, 7)
"""The versions of reader and writer from which features are listed; there are none above."""
_DELTA: Final = "delta."
_VECTORS: Final = "delta.enabledeletionvectors"
_OFF: Final = {
    "delta.appendonly": "false",
    "delta.enablechangedatafeed": "false",
    "delta.enablerowtracking": "false",
    "delta.rowtrackingsuspended": "false",
    "delta.enableincommittimestamps": "false",
    "delta.enabletypewidening": "false",
    "delta.enableicebergcompatv1": "false",
    "delta.enableicebergcompatv2": "false",
    "delta.enableicebergcompatv3": "false",
    "delta.columnmapping.mode": "none",
    "delta.checkpointpolicy": "classic",
    "delta.compatibility.symlinkformatmanifest.enabled": "false",
    "delta.universalformat.enabledformats": "",
}
"""Property → the value with which it asks for nothing of writers."""
_SET_BACK: Final = ("false", "classic")
"""What can be set again. A mapping of columns cannot be set back: its feature must be dropped."""
_HINTS: Final = frozenset(
    {
        "delta.autooptimize",
        "delta.autooptimize.autocompact",
        "delta.autooptimize.optimizewrite",
        "delta.checkpoint.writestatsasjson",
        "delta.checkpoint.writestatsasstruct",
        "delta.checkpointinterval",
        "delta.checkpointretentionduration",
        "delta.dataskippingnumindexedcols",
        "delta.dataskippingstatscolumns",
        "delta.deletedfileretentionduration",
        _VECTORS,
        "delta.enableexpiredlogcleanup",
        "delta.isolationlevel",
        "delta.logretentionduration",
        "delta.minreaderversion",
        "delta.minwriterversion",
        "delta.parquet.compression.codec",
        "delta.randomizefileprefixes",
        "delta.randomprefixlength",
        "delta.sampleretentionduration",
        "delta.settransactionretentionduration",
        "delta.targetfilesize",
        "delta.tunefilesizesforrewrites",
    }
)
"""Properties of how files and the log are kept; a commit of logwright is serializable."""
_PHYSICAL: Final = ("delta.columnMapping.id", "delta.columnMapping.physicalName")
"""What columns keep of a mapping that was switched off."""
_CONSTRAINTS: Final = "delta.constraints."
_DROP: Final = (
    "Drop it with the program that set it, or remove the table; it is then made again from the log."
)


def asked_of_protocol(reader: int, writer: int, features: Iterable[str]) -> Asked | None:
    """Return what the protocol of a table asks that logwright does not do; None: nothing.

    Args:
        reader, writer: the lowest versions of the protocol.
        features: of readers and writers.
    """
    if reader > _LISTED[0] or writer > _LISTED[1]:
        return Asked(f"it has version {reader}, {writer} of Delta's protocol.", _DROP)
    unknown = sorted({*features} - _KNOWN_FEATURES)
    if unknown:
        shown = ", ".join(_short(each) for each in unknown)
        return Asked(f"it has features of Delta that logwright does not write: {shown}.", _DROP)
    return None


def asked_of_metadata(configuration: Mapping[str, str | None], schema: str) -> Asked | None:
    """Return what properties and columns of a table ask that logwright does not do; None: nothing.

    Args:
        configuration: the table's properties.
        schema: as the log has it, JSON.
    """
    for name, value in sorted(configuration.items()):
        demand = _asked_by(name, value or "")
        if demand is not None:
            return demand
    for column, name in _marks(json.loads(schema), ()):
        if name not in _PHYSICAL:
            return Asked(
                f"its column {column} has {_short(name)}, which writers must follow.", _DROP
            )
    return None


def _asked_by(name: str, value: str) -> Asked | None:
    """Return what a property asks. Spark takes names and values in any case."""
    folded = name.casefold()
    if not folded.startswith(_DELTA) or folded in _HINTS:
        return None
    if folded.startswith(_CONSTRAINTS):
        constraint = name[len(_CONSTRAINTS) :]
        return Asked(
            f"it has the constraint {_short(constraint)}, which logwright does not check.", _DROP
        )
    if folded in _OFF:
        off = _OFF[folded]
        if value.strip().casefold() == off:
            return None
        return Asked(
            f"its property {_short(name)} is set, which logwright does not follow.",
            f"Set it to {off!r}, or remove the table; it is then made again from the log."
            if off in _SET_BACK
            else _DROP,
        )
    if folded == "delta.columnmapping.maxcolumnid":  # means nothing without the mode
        return None
    return Asked(f"logwright does not know its property {_short(name)}.", _DROP)


def vectors_are_off(configuration: Mapping[str, str | None], features: Iterable[str]) -> bool:
    """Return whether the table wants no new deletion vectors: it knows them, or has the property,
    and that is not true. A table without both can have them switched on.
    """
    folded = {name.casefold(): value or "" for name, value in configuration.items()}
    value = folded.get(_VECTORS)
    is_known = value is not None or FEATURE in features
    return is_known and (value or "").strip().casefold() != "true"


def same_types(before: str, now: str) -> bool:
    """Return whether what was written for one schema fits another: all fields have the same types,
    and none that was nullable is required now. Comments, and the order, do not count.

    Args:
        before, now: as the log has them, JSON.
    """
    return _fits(json.loads(before), json.loads(now))


def with_metadata_of(schema: str, known: str) -> str:
    """Return a schema, JSON, whose columns have the metadata, such as comments, that they have in
    another one.
    """
    content = json.loads(schema)
    metadata = {one["name"]: one.get("metadata") for one in json.loads(known)["fields"]}
    for column in content["fields"]:
        column["metadata"] = metadata.get(column["name"]) or column.get("metadata") or {}
    return json.dumps(content, separators=(",", ":"))


def _fits(before: Any, now: Any) -> bool:  # noqa: ANN401 -- JSON
    if not (isinstance(before, dict) and isinstance(now, dict)):
        return bool(before == now)
    if before.get("type") != now.get("type"):
        return False
    match now["type"]:
        case "struct":
            return _fields_fit(before["fields"], now["fields"])
        case "array":
            return _loosens(before["containsNull"], now["containsNull"]) and _fits(
                before["elementType"], now["elementType"]
            )
        case "map":
            return (
                _loosens(before["valueContainsNull"], now["valueContainsNull"])
                and _fits(before["keyType"], now["keyType"])
                and _fits(before["valueType"], now["valueType"])
            )
        case _:
            return bool(before == now)


def _fields_fit(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> bool:
    known = {one["name"]: one for one in now}
    return known.keys() == {one["name"] for one in before} and all(
        _loosens(field["nullable"], known[field["name"]]["nullable"])
        and _fits(field["type"], known[field["name"]]["type"])
        for field in before
    )


def _loosens(before: bool, now: bool) -> bool:  # noqa: FBT001 -- two of a kind
    return now or not before


def _marks(kind: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:  # noqa: ANN401 -- JSON
    """Yield each column of a schema, and within one, with a name of Delta in its metadata."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        inner = (*path, str(field["name"]))
        for name in sorted(field.get("metadata") or {}):
            if name.casefold().startswith(_DELTA):
                yield ".".join(inner), name
        yield from _marks(field["type"], inner)
    for part in ("elementType", "keyType", "valueType"):
        yield from _marks(kind.get(part), path)


def _short(name: str) -> str:
    return name[:60]
