"""``logwright quorum``: what is left of a cluster's metadata, and a directory to start from."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from logwright.cli.output import Output
from logwright.cli.request import local_directory
from logwright.cli.statuses import STOPPED
from logwright.cli.streams import confirmed
from logwright.cli.wording import counted
from logwright.errors import CorruptLogError
from logwright.metadata.find import METADATA_DIRECTORY
from logwright.place.model import Place
from logwright.quorum.model import Endpoint, KindCount, NewDirectory, Survivor, Verdict
from logwright.quorum.plan import METADATA_VERSION, judge, plan_directory
from logwright.quorum.read import read_survivors
from logwright.quorum.replicas import (
    Demotion,
    demotions,
    has_only_replicas,
    not_compared,
    read_ends,
)
from logwright.quorum.write import new_directory_id, write_directory
from logwright.reading import reading

_ENDPOINT: Final = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.]+\]|[^:/\[\]]+):([0-9]{1,5})")
_MOST_PORT: Final = 65_535
_MOST_SHOWN: Final = 10
"""Partitions of which replicas lack records."""


def run(
    output: Output,
    *,
    log_dirs: tuple[Place, ...],
    destination: Path | None,
    node_id: int | None,
    endpoint: str | None,
    yes: bool,
    dry_run: bool,
) -> int:
    """Run the command; its exit status."""
    directories = [local_directory(log_dir) for log_dir in log_dirs]
    if len({each.resolve() for each in directories}) < len(directories):
        raise click.UsageError("give each log directory once")
    listens = None if endpoint is None else _endpoint(endpoint)
    if destination is None and (node_id is not None or listens is not None):
        raise click.UsageError("--node-id and --endpoint are of the directory of --to")
    writes = destination is not None and not dry_run
    if writes and not (yes or sys.stdin.isatty()):
        raise click.UsageError("this writes a directory: give --yes, or run it in a terminal")
    with ExitStack() as stack:
        for each in directories:
            stack.enter_context(reading(each))
        survivors = _survivors(output, directories)
        for survivor in survivors:
            _show_survivor(output, survivor)
        verdict = judge(survivors)
        _show_verdict(output, verdict)
        topics = verdict.state.image.topics
        ends = read_ends(directories, topics, verdict.cluster_id)
        demoted = demotions(topics, ends)
        _show_demoted(output, demoted, not_compared(topics, ends))
        if destination is None:
            damaged = any(each.damages or each.state is None for each in survivors)
            return CorruptLogError.exit_status if damaged else 0
        new = plan_directory(
            verdict, destination, new_directory_id(), node_id=node_id, endpoint=listens
        )
        if not dry_run and not yes:
            _show_new(output, verdict, new, written=False)
            if not confirmed(f"Write {destination}?"):
                output.message("Nothing was changed.")
                return STOPPED
        if not dry_run:
            write_directory(verdict, new, demoted)
        _show_new(output, verdict, new, written=not dry_run)
    return 0


def _survivors(output: Output, directories: Sequence[Path]) -> list[Survivor]:
    """Return what the directories with a metadata log have. Effects: reads them; says which have
    none.
    """
    others = [each for each in directories if has_only_replicas(each)]
    nodes = [each for each in directories if each not in others]
    if not nodes:
        return read_survivors(directories)
    for each in others:
        output.message(f"{each} has no {METADATA_DIRECTORY}: only its replicas are compared.")
    return read_survivors(nodes)


def _endpoint(text: str) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None or not 0 < int(match[3]) <= _MOST_PORT:
        raise click.UsageError(f"--endpoint {text!r} is not NAME://HOST:PORT")
    return Endpoint(match[1], match[2].strip("[]"), int(match[3]))


def _show_survivor(output: Output, survivor: Survivor) -> None:
    """Print what one directory has. Effects: writes to stdout."""
    for damage in survivor.damages:
        at = "" if damage.position is None else f" at byte {damage.position}"
        output.result(
            f"damaged: {damage.path}{at}: {damage.problem}",
            path=str(damage.path),
            position=damage.position,
            problem=damage.problem,
        )
    state, note = survivor.state, survivor.note
    node = "a node without id" if survivor.ids.node_id is None else f"node {survivor.ids.node_id}"
    if state is None:
        why = "" if survivor.error is None else f": {survivor.error}"
        line = f"{survivor.log_dir}, {node}: no state can be read{why}"
    else:
        line = (
            f"{survivor.log_dir}, {node}: records before offset {state.end_offset}, the last of"
            f" epoch {state.epoch}"
        )
    output.result(
        line,
        logDir=str(survivor.log_dir),
        clusterId=survivor.ids.cluster_id,
        nodeId=survivor.ids.node_id,
        directoryId=survivor.ids.directory_id,
        snapshot=None if state is None else state.snapshot,
        endOffset=None if state is None else state.end_offset,
        epoch=None if state is None else state.epoch,
        notedEpoch=None if note is None else note.epoch,
        notedLeader=None if note is None else note.leader,
        damages=len(survivor.damages),
    )


def _show_verdict(output: Output, verdict: Verdict) -> None:
    """Print what all directories say together. Effects: writes to stdout."""
    state, lost = verdict.state, verdict.lost
    image = state.image
    partitions = sum(len(topic.partitions) for topic in image.topics.values())
    level = image.features.get(METADATA_VERSION, "not on record")
    summary = (
        f"The newest state is in {verdict.source.log_dir}: all before offset {state.end_offset},"
        f" epoch {state.epoch}: {counted(len(image.topics), 'topic')},"
        f" {counted(partitions, 'partition')}, {counted(len(image.registered), 'broker')};"
        f" metadata.version {level}, kraft.version {state.kraft_version}."
    )
    lines = [
        summary,
        f"Committed for certain: all before offset {state.committed_end} ({state.committed_by}).",
        *_uncertain_lines(verdict),
        *_left_out_lines(verdict),
        *_lost_lines(verdict),
    ]
    if verdict.has_quorum:
        lines.append(
            "The quorum is not gone: the directories of"
            f" {len(verdict.whole)} of {len(verdict.voters)} voters have no damage."
        )
    output.result(
        lines,
        source=str(verdict.source.log_dir),
        clusterId=verdict.cluster_id,
        endOffset=state.end_offset,
        epoch=state.epoch,
        committedOffset=state.committed_end,
        committedBy=state.committed_by,
        perhapsNotCommitted=_kinds(state.uncertain),
        leftOut=[
            {"logDir": str(each.log_dir), "endOffset": each.end_offset, "epoch": each.epoch}
            for each in verdict.left_out
        ],
        lostBefore=None if lost is None else lost.end_offset,
        lostBy=None if lost is None else lost.by,
        notApplied=[] if lost is None else _kinds(lost.records),
        newerLeaderEpoch=verdict.newer_leader,
        topics=len(image.topics),
        partitions=partitions,
        brokers=len(image.registered),
        metadataVersion=level,
        kraftVersion=state.kraft_version,
        voters=sorted(verdict.voters),
        wholeVoters=sorted(verdict.whole),
        hasQuorum=verdict.has_quorum,
    )


def _show_demoted(
    output: Output, demoted: Sequence[Demotion], not_looked_at: Mapping[int, int]
) -> None:
    """Print which replicas lack records or were not looked at. Effects: writes to stdout."""
    lines = [
        f"{each.partition}: {_lacking(each)}, and that of broker {each.other} at offset"
        f" {each.most.offset} of epoch {each.most.epoch}: in sync in the new state:"
        f" {', '.join(map(str, each.in_sync))}."
        for each in demoted[:_MOST_SHOWN]
    ]
    if len(demoted) > _MOST_SHOWN:
        more = counted(len(demoted) - _MOST_SHOWN, "more partition")
        lines.append(f"Replicas of {more} lack records, which --output json names.")
    if not_looked_at:
        counts = [f"{count} of broker {each}" for each, count in not_looked_at.items()]
        lines.append(
            f"Not looked at: replicas, {', '.join(counts)}. One that lacks records, and was in sync"
            " when this state was, may lead, and the others cut their logs to its end: give the"
            " directories of all brokers, recovered if they were killed."
        )
    output.result(
        lines,
        demoted=[
            {
                "topicPartition": str(each.partition),
                "lacking": {str(broker): end._asdict() for broker, end in each.lacking.items()},
                "broker": each.other,
                **each.most._asdict(),
                "inSync": list(each.in_sync),
            }
            for each in demoted
        ],
        notCompared={str(broker): count for broker, count in not_looked_at.items()},
    )


def _lacking(demotion: Demotion) -> str:
    return ", ".join(
        f"the replica of broker {broker} ends at offset {end.offset} of epoch {end.epoch}"
        for broker, end in demotion.lacking.items()
    )


def _uncertain_lines(verdict: Verdict) -> list[str]:
    state = verdict.state
    if state.committed_end >= state.end_offset:
        return []
    last = state.end_offset - 1
    return [
        f"Perhaps not committed, but part of the state: offsets {state.committed_end} to {last}:",
        *_kind_lines(state.uncertain),
    ]


def _left_out_lines(verdict: Verdict) -> list[str]:
    return [
        f"Left out: {each.log_dir}: its log has other records up to offset {each.end_offset - 1},"
        f" of epoch {each.epoch}, which were never committed: the leader of epoch"
        f" {verdict.state.epoch} was elected without them."
        for each in verdict.left_out
    ]


def _lost_lines(verdict: Verdict) -> list[str]:
    state, lost = verdict.state, verdict.lost
    lines = []
    if lost is not None:
        lines.append(
            f"Lost: a log had records up to offset {lost.end_offset - 1} ({lost.by}): the"
            f" {lost.end_offset - state.end_offset} from offset {state.end_offset} on are not part"
            " of the state."
        )
        if lost.records:
            lines.append("Of these can still be read, but not applied:")
            lines += _kind_lines(lost.records)
    if verdict.newer_leader is not None:
        lines.append(
            f"Lost: there was a leader of epoch {verdict.newer_leader}. No record of it is part of"
            " the state."
        )
    lines.append(
        f"Not known: what the cluster has written from offset"
        f" {max(state.end_offset, 0 if lost is None else lost.end_offset)} on, if anything."
        " No directory here says."
    )
    return lines


def _kind_lines(kinds: Sequence[KindCount]) -> list[str]:
    return [
        f"  {kind.records} {kind.kind}, offsets {kind.first_offset} to {kind.last_offset}"
        for kind in kinds
    ]


def _kinds(kinds: Sequence[KindCount]) -> list[dict[str, object]]:
    return [
        {
            "kind": kind.kind,
            "records": kind.records,
            "firstOffset": kind.first_offset,
            "lastOffset": kind.last_offset,
        }
        for kind in kinds
    ]


def _show_new(output: Output, verdict: Verdict, new: NewDirectory, *, written: bool) -> None:
    """Print what the new directory has, and what to do with it. Effects: writes to stdout."""
    voter = new.voter
    first = (
        f"{new.directory}: {'written' if written else 'to be written'}: node {new.node_id} of"
        f" cluster {new.cluster_id} as the only voter, epoch {new.epoch}, with all before offset"
        f" {verdict.state.end_offset}. {verdict.source.log_dir} stays as it is."
    )
    lines = [first]
    if written:
        lines.append(
            f"Start node {new.node_id} with log.dirs={new.directory}; if it is a broker, too, move"
            f" {METADATA_DIRECTORY} out of its log.dirs, and set metadata.log.dir={new.directory}."
        )
    if written and voter is None:
        lines.append(f"Set controller.quorum.voters to node {new.node_id} alone on all nodes.")
    output.result(
        lines,
        directory=str(new.directory),
        written=written,
        clusterId=new.cluster_id,
        nodeId=new.node_id,
        directoryId=new.directory_id,
        epoch=new.epoch,
        endOffset=verdict.state.end_offset,
        endpoints=[] if voter is None else [one._asdict() for one in voter.endpoints],
    )
