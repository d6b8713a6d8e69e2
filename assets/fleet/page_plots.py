"""The plots of the fleet page, as SVG inside the page."""

import io
from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Any, Final

from logwright.assets.fleet.page_values import Day, Row, dirty_ratio, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST: Final = 15
"""Logs in the plot of the largest."""

_CLEAN, _DIRTY, _RETAINED, _FREED = "#4e79a7", "#f28e2b", "#76b7b2", "#333333"
_NAME_LENGTH: Final = 32
_LEAST_PLACES: Final = 6
"""Places for bars: a single log does not get a bar as high as the plot."""
_SETTINGS: Final[Mapping[Any, Any]] = {
    "svg.fonttype": "none",  # text stays text: smaller, and it can be searched
    "text.parse_math": False,  # names are not formulas
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
}


def saved_svg(days: Sequence[Day]) -> str:
    """Return the plot of the bytes that each day's maintenance saved."""

    def draw(axes: "Axes") -> None:
        most = max(max(day.reclaimed + day.retained, day.freed) for day in days)
        if most <= 0:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "nothing was reclaimed", ha="center", transform=axes.transAxes)
            return
        unit, size = unit_of(most)
        places = range(len(days))
        reclaimed = [day.reclaimed / size for day in days]
        axes.bar(places, reclaimed, color=_CLEAN, label="cleanings")
        retained = [day.retained / size for day in days]
        axes.bar(places, retained, bottom=reclaimed, color=_RETAINED, label="retention")
        freed = [day.freed / size if day.freed else nan for day in days]
        axes.plot(places, freed, "D", color=_FREED, ms=4, label="freed by a purge")
        shown = range(len(days) - 1, -1, -7)
        axes.set_xticks(list(shown), [f"{days[place].day:%m-%d}" for place in shown])
        axes.set_xlim(-0.8, len(days) - 0.2)
        axes.set_ylim(0, most / size * 1.3)
        axes.set_ylabel(unit)
        axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper left")

    return _svg("Bytes reclaimed per day", draw)


def largest_svg(rows: Sequence[Row]) -> str:
    """Return the plot of the largest logs, with their dirty part."""
    largest = sorted(rows, key=lambda row: -row["bytes"])[:LARGEST][::-1]

    def draw(axes: "Axes") -> None:
        unit, size = unit_of(max((row["bytes"] for row in largest), default=0))
        names = [_short(row["log"]) for row in largest]
        dirty = [row["bytes"] * dirty_ratio(row) / size for row in largest]
        rest = [row["bytes"] / size - part for row, part in zip(largest, dirty, strict=True)]
        places = range(len(largest))
        axes.barh(places, rest, color=_CLEAN, label="clean, or not compacted")
        axes.barh(places, dirty, left=rest, color=_DIRTY, label="dirty")
        axes.set_yticks(list(places), names)
        axes.set_xlabel(unit)
        axes.set_ylim(min(len(largest) - _LEAST_PLACES, 0) - 0.6, len(largest) - 0.4)
        axes.legend(frameon=False, fontsize=8, loc="lower right")

    return _svg(f"Largest logs ({len(largest)} of {len(rows):,})", draw)


def counts_svg(title: str, names: Sequence[str], counts: Sequence[int]) -> str:
    """Return a plot of numbers of logs by class."""

    def draw(axes: "Axes") -> None:
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 -- it costs time

        bars = axes.bar(range(len(names)), counts, color=_CLEAN)
        axes.bar_label(bars, [f"{count:,}" if count else "" for count in counts], fontsize=8)
        axes.set_xticks(list(range(len(names))), names)
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.set_ylim(0, max(*counts, 1) * 1.15)
        axes.set_ylabel("logs")

    return _svg(title, draw)


def _short(name: str) -> str:
    """Return a name with the middle left out: its end has the partition number."""
    if len(name) <= _NAME_LENGTH:
        return name
    return f"{name[: _NAME_LENGTH // 2]}…{name[1 - _NAME_LENGTH // 2 :]}"


def _svg(title: str, draw: "Callable[[Axes], None]") -> str:
    """Return one plot without XML's and the document type's declarations, which a page has not."""
    import matplotlib as mpl  # noqa: PLC0415 -- it costs time
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(dict(_SETTINGS) | {"svg.hashsalt": title}):
        figure = Figure(figsize=(6.2, 3.1), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title)
        draw(axes)
        text = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]
