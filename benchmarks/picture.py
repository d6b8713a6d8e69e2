"""The bars of ``compare``, as an SVG written by hand: no library for three rectangles a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.compare import Compared

_WIDTH: Final = 760
_LEFT: Final = 80
_BARS: Final = 520
_BAR: Final = 14
_GROUP: Final = 3 * _BAR + 16
_TOP: Final = 56
_SERIES: Final = (("Kafka's Cleaner", "#9aa5b1"), ("clean", "#2f6f9f"), ("build", "#6fb1dd"))


def picture(results: Sequence[Compared]) -> str:
    """SVG of the CPU seconds for each GB of log; each log has a scale of its own."""
    parts = [_text(_LEFT, 20, "CPU seconds for each GB of log on disk; each log to its own scale")]
    for number, (name, colour) in enumerate(_SERIES):
        parts.append(_bar(_LEFT + 160 * number, 30, _BAR, colour))
        parts.append(_text(_LEFT + 160 * number + 20, 42, name))
    for number, each in enumerate(results):
        parts += _group(each, _TOP + number * _GROUP)
    height = _TOP + len(results) * _GROUP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="13">'
    )
    ground = f'<rect width="{_WIDTH}" height="{height}" fill="white"/>'
    return "\n".join([head, ground, *parts, "</svg>", ""])


def _group(each: Compared, top: int) -> list[str]:
    kafka, clean = each.figures(lambda run: run.cpu_seconds)
    _, build = each.figures(lambda run: run.build_cpu_seconds)
    values = [figure.median / each.log.log_bytes * 1e9 for figure in (kafka, clean, build)]
    parts = [_text(8, top + 2 * _BAR, each.log.name)]
    for number, (value, (_, colour)) in enumerate(zip(values, _SERIES, strict=True)):
        length = max(round(value / max(values) * _BARS), 1)
        at = top + number * _BAR
        ratio = f" ({values[0] / value:.1f} times less)" if number else ""
        parts.append(_bar(_LEFT, at, length, colour))
        parts.append(_text(_LEFT + length + 6, at + _BAR - 3, f"{value:.1f}{ratio}"))
    return parts


def _bar(left: int, top: int, length: int, colour: str) -> str:
    return f'<rect x="{left}" y="{top}" width="{length}" height="{_BAR - 1}" fill="{colour}"/>'


def _text(left: int, base: int, words: str) -> str:
    return f'<text x="{left}" y="{base}">{words}</text>'
