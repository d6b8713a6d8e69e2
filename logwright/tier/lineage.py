"""Which remote segments are a log's, and where each is followed by the next. Pure.

Leaders upload for themselves, so that segments of one log overlap, and after an unclean election
some are of a history that was given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from logwright.errors import PreconditionError
from logwright.format.checkpoints import LeaderEpoch
from logwright.tier.model import RemoteSegment, Span
from logwright.units import INT64_MAX


class Candidate(NamedTuple):
    """A segment that may be shown.

    Attributes:
        end: its last offset.
    """

    segment: RemoteSegment
    start: int
    end: int
    epochs: tuple[LeaderEpoch, ...]


class Link(NamedTuple):
    """A segment that is shown, up to an offset.

    Attributes:
        bound: exclusive: where the next segment begins, or its own end.
        is_cut: it has records at or above the bound.
    """

    segment: RemoteSegment
    bound: int
    is_cut: bool


def candidate(segment: RemoteSegment, span: Span) -> Candidate:
    """Return a segment as a candidate; `span`: its offsets."""
    return Candidate(segment, segment.id.base_offset, int(span.end), span.epochs)


def is_within(chosen: Candidate, epochs: Sequence[LeaderEpoch]) -> bool:
    """Return whether a segment is of a log with these leader epochs
    (RemoteLogManager.isRemoteSegmentWithinLeaderEpochs, Kafka 4.3.0); if either are not known, it
    is.
    """
    if not epochs or not chosen.epochs:
        return True
    first = epochs[0].epoch
    own = [each for each in chosen.epochs if each.epoch >= first]
    known = {
        each.epoch: (int(each.start_offset), after)
        for each, after in zip(epochs, [*epochs[1:], None], strict=False)
    }
    fits = [
        each.epoch in known
        and (each.epoch == first or each.start_offset >= known[each.epoch][0])
        and _fits_next(known[each.epoch][1], after, chosen.end)
        for each, after in zip(own, [*own[1:], None], strict=False)
    ]
    return bool(own) and all(fits)


def _fits_next(after: LeaderEpoch | None, own: LeaderEpoch | None, end: int) -> bool:
    """Return whether a segment continues as its log does after an epoch: with the log's next epoch,
    or it ends before that.

    Args:
        after: the log's next epoch. own: the segment's. end: its last offset.
    """
    if own is not None:
        return after == own
    return after is None or end < after.start_offset


def chain(
    candidates: Iterable[Candidate], *, local_start: int | None, log_start: int | None
) -> tuple[list[Link], list[tuple[int, int]]]:
    """Return the segments that are shown, ascending, and the offsets, first and last, that are in
    none of them, nor in the local log.

    Args:
        local_start: where the first local segment begins: from there on the local log counts; None:
            there is none.
        log_start: segments below it are not of the log any more; None: not known.
    """
    end_of_remote = INT64_MAX if local_start is None else local_start
    ordered = sorted(candidates, key=lambda chosen: (chosen.start, -chosen.end, chosen.segment.id))
    kept: list[Candidate] = []
    for chosen in ordered:
        if chosen.start >= end_of_remote or chosen.end < (log_start or 0):
            continue
        if kept and (chosen.start == kept[-1].start or chosen.end <= kept[-1].end):
            continue
        kept.append(chosen)
    links: list[Link] = []
    gaps: list[tuple[int, int]] = []
    first = kept[0].start if kept else local_start
    if log_start is not None and first is not None and log_start < first:
        gaps.append((log_start, first - 1))
    for chosen, after in zip(kept, [*kept[1:], None], strict=False):
        following = end_of_remote if after is None else after.start
        bound = min(following, chosen.end + 1)
        links.append(Link(chosen.segment, bound, chosen.end >= bound))
        if bound < following < INT64_MAX:
            gaps.append((bound, following - 1))
    return links, gaps


def require_no_gap(gaps: Sequence[tuple[int, int]], directory: object) -> None:
    """Require that nothing is missing between two segments.

    Raises:
        PreconditionError: something is.
    """
    for first, last in gaps:
        raise PreconditionError(
            f"offsets {first} to {last} are in no remote segment, and not in the log directory.",
            path=directory,
            remedy="Give the whole tier, or run it again: it may have changed meanwhile. Else these"
            " records are lost: read from a later offset on, without the tier.",
        )
