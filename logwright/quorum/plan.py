"""Which directory has the newest state, what is lost, and what a new directory must have.

Of two logs that one is newer whose last record has the newer epoch; of the same epoch, the longer
one (KIP-595). It has all that the other one proves to be committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from logwright.errors import (
    CorruptLogError,
    PreconditionError,
    UnsupportedFormatError,
)
from logwright.quorum.model import (
    Endpoint,
    Later,
    LeftOut,
    NewDirectory,
    Proof,
    State,
    Survivor,
    Verdict,
    Voter,
)
from logwright.units import INT32_MAX, Offset

EPOCH_MARGIN: Final = 1_000
"""How much newer the epoch of the new quorum is than all that were seen: a broker follows no leader
of an epoch that is older than what it has noted, and its note may be in none of the directories."""
MAX_KRAFT_VERSION: Final = 1
OTHERS: Final = (
    "Give other directories: each controller and each broker has the metadata log. Nothing was"
    " changed."
)
METADATA_VERSION: Final = "metadata.version"


def committed(survivors: Sequence[Survivor]) -> Proof | None:
    """Return what all directories together prove to be committed."""
    proofs = [
        Proof(each.state.committed_end, f"{each.state.committed_by}, in {each.log_dir}")
        for each in survivors
        if each.state is not None and each.state.committed_end
    ]
    return max(proofs, default=None, key=lambda one: one.end_offset)


def judge(survivors: Sequence[Survivor]) -> Verdict:
    """Return what all directories together say.

    Raises:
        PreconditionError: they are of several clusters, or contradict each other.
        CorruptLogError: none of them has a state.
        UnsupportedFormatError: none of them has one that this version can read.
    """
    clusters = {each.ids.cluster_id for each in survivors} - {None}
    if len(clusters) > 1:
        raise PreconditionError(
            f"the directories are of {len(clusters)} clusters.",
            remedy="Give directories of one cluster. Nothing was changed.",
        )
    source, state = _source(survivors)
    lost = _lost(survivors, state)
    voters = _voters(survivors, source, state)
    notes = [each.note for each in survivors if each.note is not None]
    leaders = [one.epoch for one in notes if one.leader is not None and one.epoch > state.epoch]
    epochs = [one.epoch for one in notes]
    epochs += [each.state.epoch for each in survivors if each.state is not None]
    return Verdict(
        source=source,
        state=state,
        cluster_id=next(iter(clusters), None),
        voters=voters,
        whole=_whole(survivors, state, voters),
        left_out=_left_out(survivors, state),
        lost=lost,
        newer_leader=max(leaders, default=None),
        last_epoch=max(epochs),
    )


def newest(survivors: Sequence[Survivor]) -> tuple[Survivor, State] | None:
    """Return the directory with the newest state, and that; None if none of them has one."""
    states = [(each, each.state) for each in survivors if each.state is not None]
    states = [(each, state) for each, state in states if state.end_offset]
    return max(states, key=lambda one: (one[1].epoch, one[1].end_offset), default=None)


def _source(survivors: Sequence[Survivor]) -> tuple[Survivor, State]:
    source = newest(survivors)
    if source is not None:
        return source
    for each in survivors:
        if isinstance(each.error, UnsupportedFormatError):
            raise each.error
    raise CorruptLogError(
        "no directory has a state of the cluster's metadata: neither a whole snapshot, nor a log"
        " from offset 0 on.",
        path=survivors[0].log_dir,
        remedy=OTHERS,
    )


def _left_out(survivors: Sequence[Survivor], state: State) -> tuple[LeftOut, ...]:
    """Return the directories whose last record is not that of the state at its offset. A record is
    known by its offset and epoch: no epoch has two leaders (KIP-595).
    """
    left_out = []
    for each in survivors:
        other = each.state
        if other is None or not other.end_offset:
            continue
        last = Offset(other.end_offset - 1)
        is_beyond = last >= state.end_offset
        if is_beyond or state.epoch_at(last) not in (None, other.epoch):
            left_out.append(LeftOut(each.log_dir, other.end_offset, other.epoch))
    return tuple(left_out)


def _lost(survivors: Sequence[Survivor], state: State) -> Later | None:
    """Return what proves the most that the state lacks."""
    later = [each.later for each in survivors if each.later is not None]
    proof = committed(survivors)
    if proof is not None:
        later.append(Later(end_offset=proof.end_offset, by=proof.by))
    later = [one for one in later if one.end_offset > state.end_offset]
    return max(later, default=None, key=lambda one: (one.end_offset, len(one.records)))


def _voters(survivors: Sequence[Survivor], source: Survivor, state: State) -> frozenset[int]:
    """Return the node ids of the quorum, as far as they are known."""
    if state.kraft_version:
        return frozenset(one.node_id for one in state.voters)
    notes = [each.note for each in (source, *survivors) if each.note is not None]
    return next((one.voters for one in notes if one.voters), frozenset())


def _whole(survivors: Sequence[Survivor], state: State, voters: frozenset[int]) -> frozenset[int]:
    """Return the voters whose directories have no damage."""
    directories = {(one.node_id, one.directory_id) for one in state.voters}
    return frozenset(
        each.ids.node_id
        for each in survivors
        if each.ids.node_id in voters
        and each.state is not None
        and not each.damages
        and (not directories or (each.ids.node_id, each.ids.directory_id) in directories)
    )


def plan_directory(
    verdict: Verdict,
    directory: Path,
    directory_id: str,
    *,
    node_id: int | None = None,
    endpoint: Endpoint | None = None,
) -> NewDirectory:
    """Return what the new directory is to have.

    Args:
        directory_id: a new one, so that the old directory no longer has the voter.
        node_id: of the controller that will start from it; None: the node of the source.
        endpoint: where it listens; None: as the log says of this node.

    Raises:
        PreconditionError: the quorum is there, or something that is needed is not known.
        CorruptLogError: the state is too short.
    """
    if verdict.has_quorum:
        whole = ", ".join(str(one) for one in sorted(verdict.whole))
        raise PreconditionError(
            f"the directories of {len(verdict.whole)} of {len(verdict.voters)} voters have no"
            f" damage (nodes {whole}): they are a quorum.",
            path=verdict.source.log_dir,
            remedy="Start these controllers, and nothing is lost. If they cannot be started, give"
            " fewer directories. Nothing was changed.",
        )
    if METADATA_VERSION not in verdict.state.image.features:
        raise CorruptLogError(
            f"the state ends at offset {verdict.state.end_offset}, before the cluster has a"
            f" {METADATA_VERSION}: no controller starts from it.",
            path=verdict.source.log_dir,
            remedy=OTHERS,
        )
    node = _node(verdict, node_id)
    if verdict.cluster_id is None:
        raise PreconditionError(
            "no directory has a meta.properties with the cluster.id.",
            path=verdict.source.log_dir,
            remedy="Give a directory of a broker, too. Nothing was changed.",
        )
    epoch = verdict.last_epoch + EPOCH_MARGIN
    if epoch > INT32_MAX:
        raise PreconditionError(
            f"the newest epoch is {verdict.last_epoch}, and a newer one is not possible.",
            path=verdict.source.log_dir,
            remedy="Leave out the directory whose quorum-state has it. Nothing was changed.",
        )
    return NewDirectory(
        directory=directory,
        cluster_id=verdict.cluster_id,
        node_id=node,
        directory_id=directory_id,
        epoch=epoch,
        voter=_voter(verdict.state, node, directory_id, endpoint),
    )


def _node(verdict: Verdict, node_id: int | None) -> int:
    own = verdict.source.ids.node_id
    node = own if node_id is None else node_id
    if node is None or (node_id is None and verdict.voters and own not in verdict.voters):
        raise PreconditionError(
            "the newest state is not in the directory of a controller."
            if own is not None
            else "the directory's meta.properties has no node.id.",
            path=verdict.source.log_dir,
            remedy="Give the node id of the controller to be started with --node-id."
            " Nothing was changed.",
        )
    return node


def _voter(
    state: State, node_id: int, directory_id: str, endpoint: Endpoint | None
) -> Voter | None:
    """Return the only voter; None with kraft.version 0."""
    if state.kraft_version == 0:
        if endpoint is not None:
            raise PreconditionError(
                "kraft.version is 0: where controllers listen is in the properties of the nodes.",
                remedy="Leave out --endpoint. Nothing was changed.",
            )
        return None
    if state.kraft_version > MAX_KRAFT_VERSION:
        raise UnsupportedFormatError(
            f"kraft.version is {state.kraft_version}, supported are 0 and {MAX_KRAFT_VERSION}.",
            remedy="Nothing was changed.",
        )
    known = next((one for one in state.voters if one.node_id == node_id), None)
    endpoints = () if known is None else known.endpoints
    if endpoint is not None:
        endpoints = (endpoint,)
    if not endpoints:
        raise PreconditionError(
            f"node {node_id} was not a voter, so the log does not have where it listens.",
            remedy="Give --endpoint NAME://HOST:PORT, as in the controller's advertised.listeners."
            " Nothing was changed.",
        )
    return Voter(
        node_id=node_id,
        directory_id=directory_id,
        endpoints=endpoints,
        min_version=0 if known is None else known.min_version,
        max_version=MAX_KRAFT_VERSION if known is None else known.max_version,
    )
