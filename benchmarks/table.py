"""Tables of a page."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.compare import Figure


def seconds(figure: Figure) -> str:
    """Median, and the range in brackets."""
    return f"{figure.median:.2f} ({figure.low:.2f}–{figure.high:.2f})"  # noqa: RUF001 -- a range


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; all columns but the first hold numbers."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))
