"""A fault that is planted to try the tests."""

from __future__ import annotations

from dataclasses import dataclass

HISTORY = (
    "tests/differential/test_fix_history.py",
    "tests/differential/test_fix_history_producers.py",
    "tests/differential/test_fix_history_records.py",
)
RULES = ("tests/property/test_cleaning_rules.py",)
UNIT = (
    "tests/unit/test_cleaner_rules.py",
    "tests/unit/keys",
    "tests/unit/rewrite",
    "tests/unit/compaction",
    "tests/unit/checks",
)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One change of the sources.

    Attributes:
        family: the rule that it breaks.
        file: below the package.
        right, wrong: what stands there, and what is put in its place, at its first occurrence.
        tests: what must notice, in the order in which it is asked.
    """

    family: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...] = HISTORY + UNIT + RULES
