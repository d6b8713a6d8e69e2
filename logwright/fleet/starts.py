"""Whether brokers start on the log directories of a fleet (`logwright.rescue.start`). Effects:
reads those of stopped brokers.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from logwright.errors import CorruptLogError, LogwrightError
from logwright.metadata.read import read_directory_ids
from logwright.place.model import is_local, is_running, is_versioned
from logwright.reading import reading
from logwright.rescue.rights import owner_of
from logwright.rescue.start import judge_start
from logwright.running.broker import broker_process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from logwright.place.model import Place
    from logwright.rescue.model import StartFinding, StartVerdict
    from logwright.units import TimestampMs

IN_A_BUCKET: Final = "it is in a bucket, where no broker starts"
NOT_HERE: Final = "it can only be read"
RUNS: Final = "a broker runs on it"
STARTS: Final = "starts"
NOT_KNOWN: Final = "not known"
NOT_JUDGED: Final = "not judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryStart:
    """Whether a broker starts on a log directory, together with the others of its node.

    Attributes:
        name: of the directory, as partition keys have it.
        verdict: on all log directories of the node; None: there is none.
        why: why there is none; empty if there is one.
        failed: there is none because something could not be read.
    """

    name: str
    log_dir: Place
    verdict: StartVerdict | None = None
    why: str = ""
    failed: bool = False

    @property
    def findings(self) -> tuple[StartFinding, ...]:
        """Of the verdict."""
        return () if self.verdict is None else self.verdict.findings

    @property
    def outcome(self) -> str:
        """What a start does, in words."""
        if self.verdict is None:
            return NOT_KNOWN if self.failed else NOT_JUDGED
        if self.verdict.starts is None:
            return NOT_KNOWN
        if not self.verdict.starts:
            return "does not start"
        effects = {finding.effect for finding in self.findings}
        if "loses" in effects:
            return "starts, and loses records"
        return "starts, and sets a log aside" if "sets aside" in effects else STARTS

    @property
    def does_harm(self) -> bool:
        """It is known that a broker does not start, or loses records."""
        return any(finding.effect in {"stops", "loses"} for finding in self.findings)


def judge_starts(
    log_dirs: Mapping[str, Place], *, now_ms: TimestampMs
) -> tuple[DirectoryStart, ...]:
    """Return whether a broker starts on each log directory, by name. Those with the same cluster
    and node are one broker's, and judged together, by the rights of who formatted them. Effects:
    reads them; asks for the brokers' locks.
    """
    starts: dict[str, DirectoryStart] = {}
    nodes: dict[object, dict[str, Path]] = {}
    running: set[object] = set()
    for name, log_dir in log_dirs.items():
        if not is_local(log_dir):
            starts[name] = DirectoryStart(name=name, log_dir=log_dir, why=why_not(log_dir))
            continue
        try:
            node: object = _node(log_dir) or name
            if broker_process(log_dir) is not None:
                running.add(node)
        except LogwrightError as error:
            starts[name] = _failed(name, log_dir, error)
        else:
            nodes.setdefault(node, {})[name] = log_dir
    for node, own in nodes.items():
        for start in _runs(own) if node in running else _judged(own, now_ms):
            starts[start.name] = start
    return tuple(starts[name] for name in log_dirs)


def why_not(place: Place) -> str:
    """Return why nothing can be changed in a place that is not of this machine, or that a broker
    has open.
    """
    if is_running(place):
        return RUNS
    return IN_A_BUCKET if is_versioned(place) else NOT_HERE


def _node(log_dir: Path) -> tuple[str | None, int] | None:
    """Return the cluster and the node of a directory; None if that is not known."""
    try:
        ids = read_directory_ids(log_dir)
    except CorruptLogError:
        return None  # which the judgement finds, too
    return None if ids.node_id is None else (ids.cluster_id, ids.node_id)


def _judged(own: Mapping[str, Path], now_ms: TimestampMs) -> Sequence[DirectoryStart]:
    directories = list(own.values())
    try:
        with ExitStack() as stack:
            for each in directories:
                stack.enter_context(reading(each))
            verdict = judge_start(directories, now_ms=now_ms, user=owner_of(directories))
    except LogwrightError as error:
        return [_failed(name, log_dir, error) for name, log_dir in own.items()]
    return [
        DirectoryStart(name=name, log_dir=log_dir, verdict=verdict) for name, log_dir in own.items()
    ]


def _runs(own: Mapping[str, Path]) -> Sequence[DirectoryStart]:
    return [DirectoryStart(name=name, log_dir=log_dir, why=RUNS) for name, log_dir in own.items()]


def _failed(name: str, log_dir: Path, error: LogwrightError) -> DirectoryStart:
    return DirectoryStart(name=name, log_dir=log_dir, why=str(error), failed=True)
