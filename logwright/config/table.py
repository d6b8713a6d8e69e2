"""The table with the latest state of a topic, as the topic's entry in the policies has it.

::

    table:
      format: delta                    # parquet, delta or iceberg
      path: /var/lib/tables/customers  # the table's directory
      value: {format: json, schema: {id: long, name: string}}

How keys and values are decoded: `logwright.config.decoding`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from logwright.bucket.store import is_in_bucket, is_url
from logwright.config.decoding import (
    DECODING_KEYS,
    Decoding,
    HeaderName,
    ScalarSpec,
    read_decoding,
)
from logwright.config.marked import Entries, Mark, Marked, Text
from logwright.config.policy_checks import Checker
from logwright.config.spec import DecoderSpec
from logwright.config.values import Boolean, Int32, Int64, contradiction
from logwright.credentials import is_any_url
from logwright.log.enclosing import enclosing_log_dir

if TYPE_CHECKING:
    from logwright.config.policies import Policies

TABLE: Final = "table"


class TableFormat(NamedTuple):
    """A format of tables.

    Attributes:
        store: the class that reads and writes it, as ``module:name``; a subclass of
            `logwright.tables.store.Store`. It is imported when a table is opened.
        extra: what must be installed for it, of `logwright.extras`.
        in_catalog: its tables are in a catalog, which may also decide on their place.
        in_bucket: its tables can be in a bucket: with `in_catalog` those in a catalog.
        keeps_versions: files of earlier versions stay for ``keep_versions_ms``, and so may rows
            that are only marked as deleted.
    """

    store: str
    extra: str = "tables"
    in_catalog: bool = False
    in_bucket: bool = False
    keeps_versions: bool = True


FORMATS: Final = {
    "parquet": TableFormat("logwright.tables.parquet:ParquetStore", keeps_versions=False),
    "delta": TableFormat("logwright.tables.delta:DeltaStore", in_bucket=True),
    "iceberg": TableFormat(
        "logwright.tables.iceberg:IcebergStore", in_catalog=True, in_bucket=True
    ),
}
"""All formats, by their names in the policies and on the command line."""
UpdateMode = Literal["merge-on-read", "copy-on-write"]
Unique = Literal["partition", "topic"]
SchemaChanges = Literal["grow", "follow", "fixed"]
UniqueBy = Literal["bytes", "decoded"]
_ONE_WAY: Final = frozenset({"binary", "string", "int", "long"})
"""Formats of keys that write each value in one way."""
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET: Final = re.compile(r"token|credential|password|secret|access-key|sas", re.IGNORECASE)
_PASSWORD: Final = re.compile(r"://[^/@]*:[^/@]*@")
_PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_MOST_PROPERTIES: Final = 100
_SLASHES: Final = 3
"""Of a URL with a path."""


def _format(name: object) -> object:
    if name not in FORMATS:
        *names, last = map(repr, FORMATS)
        raise ValueError(f"must be {', '.join(names)} or {last}")
    return name


def _identifier(name: str) -> str:
    parts = name.split(".")
    if len(parts) < 2 or not all(map(_PART.fullmatch, parts)):  # noqa: PLR2004 - namespace and name
        raise ValueError("must be NAMESPACE.NAME of letters, digits, '_' and '-'")
    return name


class TopicTable(BaseModel):
    """The table with the latest state of a topic.

    Attributes:
        format: of the table.
        path: its directory, absolute or relative to the platform's working directory, or the URL of
            a prefix in a bucket. A table of Iceberg may be without one: then the catalog decides.
        buckets: files of each partition; by size, if it is not given. It stays for the life of the
            table.
        log_dir: name of the log directory that is read; required if two have the same partition.
        update_mode: of a table of Delta or Iceberg. ``merge-on-read`` writes new rows to new files
            and deletes old ones by position; ``copy-on-write`` writes the files with changed keys
            again, for readers that do not know deleted rows.
        unique: where a key has one row: in each ``partition`` that has it, as for compaction, or in
            the whole ``topic``, also after its number of partitions has grown.
        unique_by: what makes two keys the same: their ``bytes``, as for compaction, or their
            ``decoded`` values, which a format may write in several ways.
        schema_changes: what the table does if records have a newer schema of a registry. With
            ``grow`` columns are added, widened and renamed, and any other change is refused; with
            ``follow`` columns that the newest schema does not have go, too; with ``fixed`` the
            columns stay.
        preview: show a few rows in the asset's page.
        keep_versions_ms: how long the files of earlier versions are kept, and rows in the files
            that are only marked as deleted (Delta, Iceberg).
        identifier: NAMESPACE.NAME of a table of Iceberg; ``latest_state.<topic>`` by default.
        catalog: properties of an Iceberg catalog, as pyiceberg has them; a file of SQLite in the
            table's directory, if there are none. Secrets are references to the environment, such as
            ``${CATALOG_TOKEN}``.
        fresh_within_ms: the freshness policy of its asset: how long ago the last update may be; for
            topics of running brokers.
        key, value, headers: how records are decoded.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Annotated[str, BeforeValidator(_format)]
    path: str | None = Field(None, min_length=1, max_length=4096)
    buckets: Annotated[Int32, Field(ge=1, le=4096)] | None = None
    log_dir: str | None = Field(None, min_length=1)
    update_mode: UpdateMode = "merge-on-read"
    unique: Unique = "partition"
    unique_by: UniqueBy = "bytes"
    schema_changes: SchemaChanges = "grow"
    preview: Boolean = False
    keep_versions_ms: Annotated[Int64, Field(ge=0)] = 604_800_000
    identifier: Annotated[str, AfterValidator(_identifier)] | None = None
    catalog: Mapping[str, str] = Field(default_factory=dict)
    fresh_within_ms: Annotated[Int64, Field(ge=60_000)] | None = None
    key: DecoderSpec = Field(default_factory=ScalarSpec)
    value: DecoderSpec = Field(default_factory=ScalarSpec)
    headers: tuple[HeaderName, ...] = ()

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if not self.of_format.in_catalog:
            others = " or ".join(name for name, form in FORMATS.items() if form.in_catalog)
            for name in ("catalog", "identifier"):
                if getattr(self, name):
                    raise contradiction(f"{name} is for the format {others}", name)
        if self.path is None and not self.catalog:
            raise contradiction("path is required", "format")
        if self.path is None and self.remembers_keys:
            name = "unique" if self.unique == "topic" else "unique_by"
            raise contradiction(f"{getattr(self, name)} needs a path", name)
        problem = self._problem_in_bucket()
        if problem is not None:
            raise contradiction(problem, "path")
        return self

    def _problem_in_bucket(self) -> str | None:
        """Return why there can be no such table in a bucket; None if there can, or it is in none.
        The path is not repeated: it may have a secret.
        """
        if self.path is None or not (is_in_bucket(self.path) or is_any_url(self.path)):
            return None
        if not is_url(self.path) or self.path.rstrip("/").count("/") < _SLASHES:
            return (
                "must be a directory, or s3://BUCKET/PATH, gs://BUCKET/PATH, az://CONTAINER/PATH or"
                " file:///PATH; credentials are taken from the environment"
            )
        if not self.of_format.in_bucket:
            return f"is in a bucket, where files are not replaced: {self.format} is not for it"
        if self.of_format.in_catalog and not self.catalog:
            return "is in a bucket, where a catalog's file cannot be: give a catalog"
        return None

    def held_until_ms(self, updated_ms: int, *, at_once: bool) -> int | None:
        """Return until when files of the table may hold rows that an update at this time takes
        away, ms since the epoch, if it is updated then too. None: that is left to the catalog.

        After an erasure that leaves no tombstones (`at_once`) the files of earlier versions go with
        the update. Else the rows may be marked as deleted in a current file for
        ``keep_versions_ms``, which is then a file of an earlier version for as long.

        Args:
            updated_ms: of the first update after the records were erased, or got tombstones.
        """
        if self.path is None or (self.of_format.in_catalog and is_in_bucket(self.path)):
            return None
        if self.remembers_keys and not at_once:
            return updated_ms + 2 * self.keep_versions_ms
        if at_once or not self.of_format.keeps_versions:
            return updated_ms
        marked = self.keep_versions_ms if self.update_mode == "merge-on-read" else 0
        return updated_ms + marked + self.keep_versions_ms

    @property
    def remembers_keys(self) -> bool:
        """Whether the table remembers deleted keys, since other records may be of the same key."""
        return self.unique == "topic" or self.unique_by == "decoded"

    @property
    def key_has_ways(self) -> bool:
        """Whether two keys of other bytes can have the same decoded value."""
        return self.key.format not in _ONE_WAY

    @property
    def of_format(self) -> TableFormat:
        """What the format can do."""
        return FORMATS[self.format]

    @property
    def decoding(self) -> Decoding:
        """How records are decoded."""
        return Decoding(key=self.key, value=self.value, headers=self.headers)

    def decoded_by(self, decoding: Decoding) -> Self:
        """Return the table with records that are decoded in another way."""
        return self.model_copy(update=dict(decoding))


def hidden_of(directory: Path) -> Path:
    """Return where a table in this directory keeps the keys that are in several partitions, and
    those that were deleted, if a key has one row in the whole topic, or by its decoded value.
    """
    return directory.parent / f".{directory.name}.logwright-keys"


def read_table(checker: Checker, entry: Entries) -> TopicTable | None:
    """Return the table of a topic's entry; None if it has none, or not a valid one: the problems
    are reported to the checker.
    """
    if TABLE not in entry.entries:
        return None
    mark, node = entry.entries[TABLE]
    if "name" not in entry.entries:
        checker.report(node, "needs an entry with a name, not a pattern", at=mark, value=False)
    given = checker.mapping(node)
    if not given.whole:
        return None
    table = checker.model(TopicTable, given.without(*DECODING_KEYS))
    decoding = read_decoding(checker, given)
    good = _has_no_secrets(checker, given)
    if table is None or decoding is None or not good or "name" not in entry.entries:
        return None
    if table.unique_by == "decoded" and decoding.key == ScalarSpec():
        rule = "decoded needs a key that is decoded, such as key: json"
        checker.report(given.entries["unique_by"][1], rule, value=False)
        return None
    return table.decoded_by(decoding)


def report_paths(checker: Checker, entries: Iterable[Marked], log_dirs: Collection[Path]) -> None:
    """Report tables whose path another one has too, or is in a log directory. Effects: looks for a
    broker's files.

    Args:
        log_dirs: those that are known.
    """
    seen: dict[Path | str, Mark] = {}
    for entry in entries:
        if not isinstance(entry, Entries):
            continue
        (_, table) = entry.entries.get(TABLE, (None, None))
        if not isinstance(table, Entries):
            continue
        (_, path) = table.entries.get("path", (None, None))
        if not isinstance(path, Text) or not path.text:
            continue
        if is_in_bucket(path.text):
            place: Path | str = path.text.rstrip("/")
        else:
            place = Path(path.text)
        if place in seen:
            checker.report(path, f"is the path of another table, at {seen[place]}")
        seen.setdefault(place, path.mark)
        log_dir = None if isinstance(place, str) else enclosing_log_dir(place, log_dirs)
        if log_dir is not None:
            checker.report(path, f"is in the log directory {log_dir}: no broker would start on it")


def tables_of(policies: Policies) -> dict[str, TopicTable]:
    """Return topic → table, for the topics that have one."""
    return {
        entry.labels.name: entry.table
        for entry in policies.topics
        if entry.table is not None and entry.labels.name is not None
    }


def references(catalog: Mapping[str, str]) -> dict[str, str]:
    """Return property → variable, for the properties that refer to the environment."""
    matches = {name: _REFERENCE.fullmatch(value) for name, value in catalog.items()}
    return {name: one[1] for name, one in matches.items() if one is not None}


def _has_no_secrets(checker: Checker, table: Entries) -> bool:
    """Return whether the secrets of the catalog are references to the environment."""
    (_, catalog) = table.entries.get("catalog", (None, None))
    if not isinstance(catalog, Entries):
        return True
    if len(catalog.entries) > _MOST_PROPERTIES:
        checker.report(catalog, f"must be at most {_MOST_PROPERTIES} properties", value=False)
        return False
    good = True
    for name, (_, value) in catalog.entries.items():
        if not isinstance(value, Text) or value.text is None or _REFERENCE.fullmatch(value.text):
            continue
        if _SECRET.search(name):
            rule = "a secret must be a reference to the environment: ${NAME}"
        elif _PASSWORD.search(value.text):
            rule = "has a password: make it a reference to the environment, ${NAME}"
        else:
            continue
        checker.report(value, rule, value=False)
        good = False
    return good
