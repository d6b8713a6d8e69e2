"""The tests of a topic's entry in the policies, as dbt has them for a model.

::

    tests:
      - expect_column_values_to_be_between: {column: tombstone_share, max_value: 0.2}
      - values: {format: json, columns: {id: {type: long, nullable: false}}}

An expectation is one of Great Expectations, by its name and with its arguments, on the profile of a
log's compacted output (`PROFILE_COLUMNS`). A value contract is about the decoded values of the
records in that output. A failure of severity ERROR stops the swap of that log, as in dbt; one of
severity WARN is only shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from logwright.config.marked import Entries, Mark, Marked, nearest
from logwright.config.patterns import compiling
from logwright.config.policy_checks import Checker
from logwright.config.policy_models import Severity
from logwright.config.values import Boolean, Double, Int32

PROFILE_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "segments": "segments that were written",
        "base_offset": "base offset of the first of them",
        "log_bytes": "`.log` bytes of all of them",
        "largest_segment_bytes": "`.log` bytes of the largest",
        "batches": "record batches",
        "largest_batch_bytes": "bytes of the largest batch",
        "records": "records, markers of transactions included",
        "tombstones": "records without a value",
        "tombstone_share": "tombstones / records",
        "null_key_records": "records without a key",
        "last_offset": "the last offset",
        "max_timestamp_ms": "the latest timestamp, ms since the epoch",
        "max_codec": "the highest compression codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd",
        "misplaced_index_entries": "entries of an index that point at no batch",
        "source_records": "records of the segments that were replaced",
        "source_bytes": "`.log` bytes of the segments that were replaced",
        "kept_records_share": "records / source_records",
        "kept_bytes_share": "log_bytes / source_bytes",
        "expected_records": "records that the cleaning says it wrote",
        "expected_bytes": "`.log` bytes that the cleaning says it wrote",
    }
)
"""The numbers of a log's profile → what each means."""

_COLUMN_NAMES: Final = frozenset(PROFILE_COLUMNS)
_MOST_TESTS: Final = 100
_MOST_SHOWN: Final = 200


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _profile_column(name: str) -> str:
    if name not in _COLUMN_NAMES:
        near = nearest(name, _COLUMN_NAMES)
        raise ValueError(f"is not a column of the profile; did you mean {near!r}?")
    return name


Column = Annotated[str, AfterValidator(_profile_column)]
"""The name of a column of the profile."""

TestSeverity = Annotated[Severity, BeforeValidator(_upper)]
Pattern = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(compiling)]


class TopicTest(BaseModel):
    """What every test has.

    Attributes:
        severity: of a failure; None: the severity of the topic, or ERROR.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    severity: TestSeverity | None = None


class Expectation(TopicTest):
    """An expectation on the profile of a log."""

    kind: ClassVar[str]

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments of Great Expectations that are set."""
        return self.model_dump(exclude={"severity"}, exclude_defaults=True)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return tuple(str(value) for key, value in self.arguments.items() if "column" in key)

    @property
    def title(self) -> str:
        """Its name with its arguments, for results."""
        arguments = ", ".join(f"{key}={_plainly(value)}" for key, value in self.arguments.items())
        text = f"{self.kind}({arguments})"
        return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


class ValuesBetween(Expectation):
    """A column's value is within limits."""

    kind = "expect_column_values_to_be_between"
    column: Column
    min_value: Double | None = None
    max_value: Double | None = None
    strict_min: Boolean = False
    strict_max: Boolean = False


class ValuesInSet(Expectation):
    """A column's value is one of these."""

    kind = "expect_column_values_to_be_in_set"
    column: Column
    value_set: Annotated[tuple[Double, ...], Field(min_length=1, max_length=1000)]


class ValuesNotInSet(ValuesInSet):
    """A column's value is none of these."""

    kind = "expect_column_values_to_not_be_in_set"


class PairAGreaterThanB(Expectation):
    """One column's value is greater than another's."""

    kind = "expect_column_pair_values_a_to_be_greater_than_b"
    column_A: Column  # noqa: N815 - Great Expectations has this name
    column_B: Column  # noqa: N815 - the same
    or_equal: Boolean = False


class PairEqual(Expectation):
    """Two columns' values are equal."""

    kind = "expect_column_pair_values_to_be_equal"
    column_A: Column  # noqa: N815 - Great Expectations has this name
    column_B: Column  # noqa: N815 - the same


class ValueColumn(BaseModel):
    """What is asked of one column of the decoded values.

    Attributes:
        type: as Spark names it; a long is a whole number within int64, a double any number.
        nullable: null, and a field that is missing, are allowed.
        min_value, max_value: limits of a number, both included.
        min_length, max_length: limits of a string's length in characters, both included.
        regex: a regular expression for the whole string.
        value_set: the values that are allowed, as they are written.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    type: Literal["long", "double", "string", "boolean"]
    nullable: Boolean = True
    min_value: Double | None = None
    max_value: Double | None = None
    min_length: Annotated[Int32, Field(ge=0)] | None = None
    max_length: Annotated[Int32, Field(ge=0)] | None = None
    regex: Pattern | None = None
    value_set: Annotated[tuple[str, ...], Field(min_length=1, max_length=1000)] | None = None


class ValueContract(TopicTest):
    """A contract on the decoded values of the records that survive; tombstones are not checked.

    Attributes:
        format: what a value is: a JSON object, UTF-8 text, or a long of 8 bytes (LongSerializer).
        max_records: of a log with more records about this many are checked, chosen by key hash.
        columns: name → what is asked. Of JSON, ``a.b`` is the field b of the object a; the other
            formats have one column, ``value``.
    """

    kind: ClassVar[str] = "values"
    format: Literal["json", "string", "long"]
    max_records: Annotated[Int32, Field(ge=1)] = 100_000
    columns: tuple[tuple[str, ValueColumn], ...] = ()


EXPECTATIONS: Final[Mapping[str, type[Expectation]]] = MappingProxyType(
    {
        model.kind: model
        for model in (ValuesBetween, ValuesInSet, ValuesNotInSet, PairAGreaterThanB, PairEqual)
    }
)
"""The expectations that make sense for a frame with one row for each log."""

_TEST_NAMES: Final = frozenset({*EXPECTATIONS, ValueContract.kind})
_OF_TYPE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "min_value": ("long", "double"),
        "max_value": ("long", "double"),
        "min_length": ("string",),
        "max_length": ("string",),
        "regex": ("string",),
        "value_set": ("long", "string"),
    }
)
"""An option of a value's column → the types that have it."""


def read_tests(checker: Checker, node: Marked | None) -> tuple[TopicTest, ...]:
    """Return the valid tests of a list; the problems are reported to the checker."""
    if node is None:
        return ()
    items = checker.items(node)
    if len(items) > _MOST_TESTS:
        checker.report(node, f"must be at most {_MOST_TESTS} tests", value=False)
        return ()
    tests: dict[TopicTest, Mark] = {}
    for item in items:
        test = _test(checker, item)
        if test in tests:
            checker.report(item, f"is the same test as at {tests[test]}", value=False)
        elif test is not None:
            tests[test] = item.mark
    return tuple(tests)


def _test(checker: Checker, item: Marked) -> TopicTest | None:
    """Return a test, None if it is not valid."""
    if not isinstance(item, Entries) or len(item.entries) != 1:
        checker.report(item, "must be a mapping of one test's name to its arguments")
        return None
    ((name, (_, value)),) = item.entries.items()
    if name not in _TEST_NAMES:
        checker.unknown(item, name, _TEST_NAMES, "unknown test")
        return None
    node = checker.mapping(value)
    if not node.whole:
        return None
    if name == ValueContract.kind:
        return _contract(checker, node)
    test = checker.model(EXPECTATIONS[name], node)
    if isinstance(test, ValuesBetween) and test.min_value is None and test.max_value is None:
        checker.report(node, "needs min_value or max_value", value=False)
        return None
    return test


def _contract(checker: Checker, node: Entries) -> ValueContract | None:
    """Return a contract, None if it is not valid."""
    contract = checker.model(ValueContract, node.without("columns"))
    if "columns" not in node.entries:
        checker.report(node, "is required", setting=node.path_of("columns"), value=False)
        return None
    given = checker.mapping(node.entries["columns"][1])
    columns = dict(_value_columns(checker, given))
    if not given.entries and given.whole:
        checker.report(given, "needs at least one column", value=False)
    if contract is None or not columns or len(columns) < len(given.entries):
        return None
    if contract.format != "json" and columns.keys() != {"value"}:
        rule = f"must have the one column 'value': format is {contract.format}"
        checker.report(given, rule, value=False)
        return None
    return contract.model_copy(update={"columns": tuple(columns.items())})


def _value_columns(checker: Checker, node: Entries) -> Iterator[tuple[str, ValueColumn]]:
    """Yield the valid columns."""
    for name, (_, value) in node.entries.items():
        options = checker.mapping(value)
        column = checker.model(ValueColumn, options) if options.whole else None
        if column is None:
            continue
        wrong = [
            key for key in options.entries if column.type not in _OF_TYPE.get(key, (column.type,))
        ]
        for key in wrong:
            checker.report(options.entries[key][1], f"is not for type {column.type}")
        if not wrong and _is_set_of(column, options, checker):
            yield name, column


def _is_set_of(column: ValueColumn, options: Entries, checker: Checker) -> bool:
    """Return whether the allowed values are of the column's type."""
    if column.type != "long" or column.value_set is None:
        return True
    if all(re.fullmatch(r"-?[0-9]{1,19}", text) for text in column.value_set):
        return True
    checker.report(options.entries["value_set"][1], "must be whole numbers")
    return False


def _plainly(value: object) -> str:
    """Return an argument as an operator writes it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_plainly, value))}]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
