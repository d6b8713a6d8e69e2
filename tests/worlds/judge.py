"""Hold what was claimed against what a plain search knows.

``more``: something is said to be gone, searched, in time or done that is not, or of which nobody
can know. ``less``: something is not said, or a command fails, where all was searched. ``bug``: a
command ended in an exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.worlds.copies import left_copies
from tests.worlds.knowledge import Known, Seen, directories, has, know
from tests.worlds.plain_search import PlainFile, is_live
from tests.worlds.product import Claimed
from tests.worlds.requests import ALL, Asked, Asking, is_valid
from tests.worlds.world import NOW_MS, World, short

CLEAN = ("gone", "not found")
AS_BYTES = "gone as bytes"
"""Of a request of which only the HMAC is known, or whose key is there in other bytes, too."""
METADATA_LOG = "__cluster_metadata-0"
REFUSED = 5
TOO_LITTLE = ("not proved", AS_BYTES, "missed", "will be late", "remains")
"""States in which a certificate does not end with 0."""
LEFT = ("remains", "will be late", "missed", "in time")
_WARNED = re.compile(r"white space|blank|quot|space", re.IGNORECASE)
_NO_MATCH = re.compile(r"match(?:es)? (?:no|nothing)|no (?:log|topic)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wrong:
    """One wrong claim.

    Attributes:
        way: more, less or bug.
        cause: a few words by which such faults are counted.
        why: what the plain search knows.
    """

    way: str
    cause: str
    why: str

    def __str__(self) -> str:
        return f"{self.way}: {self.cause}: {self.why}"


def judge(world: World, seen: Seen, claimed: Sequence[Claimed]) -> list[Wrong]:
    """All wrong claims about a world."""
    asking = world.plan.asking
    known = {one: know(world, seen, one) for one in asking.asked}
    wrongs: list[Wrong] = []
    for claim in claimed:
        if claim.status is None:
            wrongs.append(
                Wrong("bug", f"{claim.command}: {claim.said.splitlines()[-1][:60]}", claim.said)
            )
        elif (refusal := _misread(asking, claim)) is not None:
            wrongs += refusal
        elif claim.command == "find":
            wrongs += _find(world, seen, known, claim)
        elif claim.command == "certificate":
            wrongs += _certificate(world, known, claim)
            wrongs += _pattern(asking, seen, claim)
        else:
            wrongs += _countdown(known, claim)
    return wrongs


def _misread(asking: Asking, claim: Claimed) -> list[Wrong] | None:
    """The faults of a call whose keys or topics are not written as they should be; None if they
    are, or if the call says that it has noticed.
    """
    is_clean = claim.status == 0 or any(one in (*CLEAN, "in time") for one in claim.states.values())
    if asking.is_refused or (asking.is_doubtful and not _WARNED.search(claim.said)):
        why = f"the keys are written as {asking.encoding}"
        wrong = [Wrong("more", f"{claim.command}: encoding of keys", why)]
        return wrong if is_clean else []
    if asking.is_doubtful:
        return []
    return None


def _state(
    request: Asked, known: Known, state: str, *, world: World, where: str
) -> Iterator[Wrong]:
    """The faults of what is said of one request."""
    about = f"{state} of {short([request.topics])}"
    if state in CLEAN:
        yield from _clean(request, known, state, world=world, where=where)
    elif state == "in time":
        if known.unread or known.elsewhere:
            yield Wrong("more", "in time with unread files", _paths(known))
        if any(one.stays for one in known.found):
            yield Wrong("more", "in time of what stays", _paths(known))
    if state in (AS_BYTES, "not proved"):
        if not _has_cause(request, known, state, world.plan.asking.asked):
            yield Wrong("less", f"{state} without a cause", about)
    elif state in LEFT:
        if not (known.found or known.maybe or known.others):  # others: of a request for all forms
            yield Wrong("less", f"{state} of nothing", about)
        past = request.deadline_ms is not None and request.deadline_ms <= NOW_MS
        if past != (state == "missed") or (request.deadline_ms is None and state == "will be late"):
            yield Wrong("more", f"{state} by another deadline", about)


def _has_cause(request: Asked, known: Known, state: str, all_of: Sequence[Asked]) -> bool:
    """Whether there is a reason for which nobody can say that a person is gone."""
    if state == AS_BYTES:
        by_hmac = any(each.form == "hmac" and each.key == request.key for each in all_of)
        return by_hmac or bool(known.others or not known.is_complete)
    return bool(known.found or known.maybe or not known.exists or not known.is_complete)


def _clean(
    request: Asked, known: Known, state: str, *, world: World, where: str
) -> Iterator[Wrong]:
    if known.found:
        shared = [one for one in world.plan.asking.requests if one.key == request.key]
        no_topic = all(one.topic is None for one in known.found)
        alike = ", one of several requests" if len(shared) > 1 and no_topic else ""
        names = sorted({_kind(one.path) for one in known.found})
        cause = alike or (
            ", a copy" if any(one in known.copies for one in known.found) else f" in {names[0]}"
        )
        yield Wrong("more", f"clean while found{cause}", f"{state}: {_paths(known)}")
    if known.others:
        yield Wrong(
            "more", "clean while another form is there", short([one.path for one in known.others])
        )
    if known.unread or known.elsewhere:
        cause = "elsewhere" if not known.unread else _kind(known.unread[0].path)
        yield Wrong("more", f"clean with unread: {cause}", f"{state}: {_paths(known)}")
    if not known.exists and (state == "gone" or not _NO_MATCH.search(where)):
        yield Wrong("more", "topic that does not exist", f"{state} of {request.topics!r}")
    elif state == "gone" and not _is_on_record(world, request):
        yield Wrong("more", "gone without an erasure on record", f"{request.topics}")


def _is_on_record(world: World, request: Asked) -> bool:
    """Whether an act has erased the person from one of the topics."""
    return any(request.is_about(topic) for topic, key in world.on_record if key == request.key)


def _kind(path: str) -> str:
    """A path without its names, for counting."""
    return re.sub(r"[0-9a-f]{6,}|\d+|customers|orders|t{9,}", "*", path)[-40:]


def _paths(known: Known) -> str:
    parts = (("found in", known.found), ("maybe", known.maybe), ("unread", known.unread))
    named = [f"{title} {short([one.path for one in files])}" for title, files in parts if files]
    return "; ".join([*named, *known.elsewhere])


def _certificate(world: World, known: dict[Asked, Known], claim: Claimed) -> Iterator[Wrong]:
    about = {(one.digest, one.topics): one for one in known}
    for key, state in claim.states.items():
        if key in about:
            request = about[key]
            yield from _state(request, known[request], state, world=world, where=claim.said)
    if not claim.states and claim.status == 0:
        yield Wrong("more", "certificate: status 0 without a certificate", claim.said[:200])
    states = set(claim.states.values())
    bad = [one for key, one in about.items() if key in claim.states and _is_open(known[one])]
    if claim.status == 0 and (bad or states & set(TOO_LITTLE)):
        yield Wrong("more", "certificate: status 0", f"{sorted(states)}")
    if (
        known
        and claim.status != 0
        and len(about) == len(known)  # of two requests of one key, `states` has only one
        and not _must_choose(world, claim)
        and all(
            is_valid(request.topics) and known_of.is_complete and known_of.exists
            for request, known_of in known.items()
        )
    ):
        if not claim.states:
            yield Wrong("less", f"certificate: refused, {claim.status}", claim.said[-300:])
        elif not states & set(TOO_LITTLE):
            yield Wrong("less", f"certificate: status {claim.status}", f"{sorted(states)}")
    if claim.said.startswith("verify-certificate"):
        yield Wrong("less", "verify-certificate", claim.said[:200])


def _is_open(known: Known) -> bool:
    return bool(known.unread or known.elsewhere)


def _find(world: World, seen: Seen, known: dict[Asked, Known], claim: Claimed) -> Iterator[Wrong]:
    pattern = world.plan.asking.pattern
    files = [*seen.logs, *(file for file, _ in seen.tables)]
    matched = [one for one in files if pattern is not None and one.has_pattern(pattern)]
    hits = [one for each in known.values() for one in each.found] + matched
    maybe = [one for each in known.values() for one in each.maybe]
    all_known = list(known.values())
    unread = any(one.unread for one in all_known) or bool(pattern and _any_unread(seen))
    away = any(one.elsewhere for one in all_known) or bool(pattern and _any_away(world, seen))
    unsure = not all(one.is_complete and one.exists for one in all_known)
    is_whole = all(one.state == "whole" for one in files) and not world.lacking
    unsure = unsure or bool(pattern and not is_whole) or away
    where = f"{short([one.path for one in hits])}; unread {bool(unread)}; elsewhere {away}"
    valid = all(is_valid(one.topics) for one in known)
    if claim.status == 0:
        if hits:
            by_pattern = all(one in matched for one in hits)
            named = "find: 0 and a pattern is there" if by_pattern else "find: 0 and found"
            in_tables = {id(file) for file, _ in seen.tables}
            named += ", in a table" if all(id(one) in in_tables for one in hits) else ""
            yield Wrong("more", named, where)
        if unread or away:
            yield Wrong("more", f"find: 0 and unread, elsewhere {away}", where)
        if any(one.others for request, one in known.items() if request.form != "hmac"):
            yield Wrong("more", "find: 0 and another form is there", where)
        if not all(one.exists for one in all_known) and not _NO_MATCH.search(claim.said):
            yield Wrong("more", "find: topic that does not exist", where)
    elif claim.status in (8, 10):
        if unread or away:
            yield Wrong("more", f"find: {claim.status} and {'unread' if unread else 'away'}", where)
        if not hits and not maybe:
            yield Wrong("less", "find: found nothing that is there", claim.said[:200])
    elif not unsure and valid and (known or pattern) and not _must_choose(world, claim):
        yield Wrong("less", f"find: {claim.status} without a cause", claim.said[-300:])


def _must_choose(world: World, claim: Claimed) -> bool:
    """Whether two directories have the cluster's metadata, as after a copy, and the command asks
    which.
    """
    metadata = list(world.first.parent.glob(f"*/{METADATA_LOG}"))
    return len(metadata) > 1 and claim.status == REFUSED and "--no-metadata" in claim.said


def _any_unread(seen: Seen) -> bool:
    return any(one.state == "unread" for one in seen.logs)


def _any_away(world: World, seen: Seen) -> bool:
    """Whether a part of any topic is elsewhere: a pattern is searched in all topics."""
    held = {one for root in world.live for one in directories(root) if is_live(one)}
    replicas = [
        (f"{topic}-{number}", brokers)
        for topic, partitions in world.replicas.items()
        for number, brokers in partitions.items()
    ]
    return bool(seen.remote) or any(
        set(all_of) - {1} or replica not in held for replica, all_of in replicas
    )


def _pattern(asking: Asking, seen: Seen, claim: Claimed) -> Iterator[Wrong]:
    """A pattern that is there is among what remains, or something was not searched."""
    if asking.pattern is None or not claim.states:
        return
    files = [*seen.logs, *(file for file, _ in seen.tables)]
    there = [one.name for one in files if one.name and one.has_pattern(asking.pattern)]
    there = [one for one in there if json.dumps(one) not in claim.said]
    if there and '"not_read": []' in claim.said:
        yield Wrong("more", "certificate: a pattern that is there", short(there))


def _countdown(known: dict[Asked, Known], claim: Claimed) -> Iterator[Wrong]:
    """The platform searches log directories; of tables and archives it says nothing."""
    copies = {id(one) for each in known.values() for one in each.copies}
    left: dict[Asked, tuple[list[PlainFile], list[PlainFile]]] = {}
    valid = [one for one in known if is_valid(one.topics)]
    for request in valid:
        known_of = known[request]
        whole = [file for file in known_of.found if id(file) not in copies]
        unread = [file for file in known_of.unread if id(file) not in copies]
        if whole or unread or known_of.elsewhere:
            left[request] = (whole, unread)
    if claim.gone > len(valid) - len(left):
        alike = len({one.key for one in left}) < len(left)
        why = f"{claim.gone} of {len(valid)} gone, {len(left)} cannot be"
        yield Wrong("more", f"countdown: gone{', several of a key' if alike else ''}", why)
    for (_, topic), state in claim.states.items():
        for request, (whole, unread) in left.items():
            if state not in (*CLEAN, "in time") or not request.is_about(topic):
                continue
            files = [file for file in whole if file.topic in (topic, None) and state in CLEAN]
            files += [file for file in unread if file.topic in (topic, None)]
            if files:
                paths = short([file.path for file in files])
                yield Wrong("more", f"countdown: topic is {state}", f"{short([topic])}: {paths}")


def judge_erasure(world: World, before: Seen, after: Seen, claim: Claimed) -> Iterator[Wrong]:
    """Hold an erasure of the first log directory against what is left there."""
    asking = world.plan.asking
    if claim.status is None:
        yield Wrong("bug", f"erase: {claim.said.splitlines()[-1][:60]}", claim.said)
        return
    refusal = _misread(asking, claim)
    if refusal is not None:
        yield from refusal
        return
    left, unread, loose, others = _left(asking, after)
    if claim.status == 0 and others:
        paths = short([file.path for file in others])
        yield Wrong("more", "erase: 0 and another form is there", paths)
    if claim.status == 0 and (copies := left_copies(world)):
        why = short([str(one.relative_to(world.root)) for one in copies])
        yield Wrong("more", "erase: 0, and a killed command's copies stay", why)
    if claim.status == 0 and (left or unread):
        kind = _kind((left or unread)[0].path)
        paths = short([one.path for one in (*left, *unread)])
        yield Wrong("more", f"erase: 0, {'left' if left else 'unread'}: {kind}", paths)
    # All topics are not a name that can have an error: whatever is there was searched.
    exists = all(one.topics == ALL or any(map(one.is_about, before.here)) for one in asking.asked)
    was = any(has(file, one) for one in asking.asked for file in before.first)
    if claim.status == 0 and not exists and not was and not _NO_MATCH.search(claim.said):
        yield Wrong("more", "erase: topic that does not exist", str(asking.asked[0].topics))
    quiet = not before.remote and not world.replicas and not world.did("move", "undo")
    valid = bool(asking.asked) and all(is_valid(one.topics) for one in asking.asked)
    killed = any(name.startswith("kill") for name, _ in world.done)
    if claim.status != 0 and valid and exists and quiet and not killed:
        broken = _broken(before, claim)
        if not (left or unread or loose or others or broken):
            yield Wrong("less", f"erase: {claim.status} without a cause", claim.said[-300:])


def _broken(before: Seen, claim: Claimed) -> list[PlainFile]:
    """The files because of which a log is refused. One that is being swapped in may lack records:
    a recovery, as a broker's, puts it in the place of segments.
    """
    is_refused = claim.status == REFUSED
    return [
        file
        for file in before.first
        if file.state != "whole" or file.is_torn or (is_refused and file.path.endswith(".log.swap"))
    ]


def _left(asking: Asking, after: Seen) -> tuple[list[PlainFile], ...]:
    """The files of the first directory that have somebody, cannot be read, need not be searched, or
    have somebody in another form.
    """
    left, unread, loose, others = [], [], [], []
    for request in asking.asked:
        files = [file for file in after.first if request.is_about(file.topic)]
        left += [file for file in files if has(file, request)]
        unread += [file for file in files if file.state == "unread"]
        loose += [file for file in files if file.state == "loose"]
        if request.form != "hmac":  # nobody can look for its forms
            others += [file for file in files if file.has_other_form(request.key)]
    return left, unread, loose, others
