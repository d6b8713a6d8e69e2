"""A log directory in a bucket with all objects that are there, for a search: that it is complete is
known by a listing, not by what manifests name.

All is listed once before anything is read, and once more in the end. Each object is one of these:

- *shown*: a file of the newest version of a log, or that version itself, whose texts are shown;
- *other version*: below ``data/`` or ``manifest/`` of a partition, and not shown. It is counted and
  not searched; a purge removes it. An earlier manifest that names nothing but shown files, with the
  same settings, holds no more than they do, and is shown;
- *file*: anything else. It is shown under its name and searched by its content. If that name is
  taken, or is one whose content a search believes, " (object)" is added to it;
- *unread*: the client refuses its name, or cannot read it. It is named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from logwright.bucket.agreement import AGREEMENT
from logwright.bucket.commit import read_manifest
from logwright.bucket.driver import drive
from logwright.bucket.everything import Everything, everything
from logwright.bucket.manifest import MANIFESTS, STATES, manifest_key, version_of
from logwright.bucket.stored import DATA
from logwright.errors import LogwrightError, unreadable
from logwright.format.checkpoints import parse_leader_epochs
from logwright.format.names import DELETED_LOGS, WORK_DIRECTORY, TopicPartition
from logwright.place.bucket import BucketPlace, Session
from logwright.place.local import entry_of, open_local
from logwright.place.model import Bytes, Entry, Place
from logwright.place.objects import ObjectBytes, directory_entry, entry_of_object

if TYPE_CHECKING:
    from logwright.bucket.manifest import Manifest
    from logwright.bucket.store import Bucket, Stored

Class = Literal["shown", "other version", "file", "unread"]
_AT_ONCE: Final = 8
_TAKEN: Final = " (object)"
_BELIEVED: Final = frozenset((WORK_DIRECTORY, DELETED_LOGS))
"""What is in a file of these names, a search takes for facts: no writer of a bucket writes them."""
_CONTROL: Final = re.compile("[\0-\x1f\x7f]")
_STATE: Final = re.compile(rf"{STATES}[0-9]{{20}}")
_VERSIONS: Final = MANIFESTS.rstrip("/")
_HIDDEN: Final = "the versions of the log cannot be listed, so it was not searched"
_NOT_READ: Final = "the client cannot read an object of this name"
_DUE: Final = "`logwright purge` removes them when they are due"
_MEANWHILE: Final = "appeared, or was replaced, while the rest was searched"


@dataclass(frozen=True, slots=True)
class Contents:
    """All objects of a log directory, as they were listed first.

    Attributes:
        session: what is shown of the logs.
        stamps: key → size and tag, of each object.
        classes: key → what it is; of what cannot be listed, the prefix.
        shown: keys of the newest versions and their manifests, whether they were listed or not.
        files: path → the object, of files; `entries`: what they are.
        inside: directory → name → entry, of what has files; ``""`` is the root.
        unread: key or prefix → why it was not searched.
        others: partition's directory → how many objects of other versions.
    """

    session: Session
    stamps: dict[str, tuple[int, str]] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    files: dict[str, Stored] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    inside: dict[str, dict[str, Entry]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)

    def foreign(self) -> Iterator[tuple[str, str]]:
        """Yield what is of no log and not of logwright: key, or prefix, and what is known of it."""
        yield from self.unread.items()
        for path, stored in self.files.items():
            if stored.bytes and stored.key != AGREEMENT and not _STATE.fullmatch(stored.key):
                yield path, "an object of no log"

    def unfinished(self) -> dict[str, int]:
        """Return directory → objects, of partitions without any version."""
        return {
            name: count
            for name, count in self.others.items()
            if not (self._log(name) or f"{name}/{MANIFESTS}" in self.unread)
        }

    def not_searched(self) -> Iterator[tuple[str, str]]:
        """Yield what may hold records and is not shown: see `ReadOnlyPlace.not_shown`."""
        for name, count in sorted(self.others.items()):
            what = "of other versions" if self._log(name) else "that no version names"
            yield name, f"{count} objects {what} were not searched; {_DUE}"
        yield from sorted(self.unread.items())

    def appeared(self, now: Everything) -> Iterator[tuple[str, str]]:
        """Yield what is there now, and was not when all was listed first."""
        of_logs: Counter[str] = Counter()
        for stored in now.stored:
            known = self.stamps.get(stored.key) == (stored.bytes, stored.e_tag)
            if known or not stored.bytes or stored.key in self.shown:
                continue
            directory = directory_of(stored.key)
            if directory is None:
                yield stored.key, _MEANWHILE
            else:
                of_logs[directory] += 1
        yield from ((name, f"{count} objects: {_MEANWHILE}") for name, count in of_logs.items())
        for key, why in now.unread.items():
            if key not in self.unread:
                yield key, why

    def _log(self, name: str) -> bool:
        return self.session.log(name) is not None


@dataclass(frozen=True, order=True)
class WholeBucketPlace(BucketPlace):
    """A log directory in a bucket, or something in it, with all objects.

    Attributes:
        contents: what was listed.
    """

    contents: Contents = field(compare=False, repr=False)

    def again(self) -> WholeBucketPlace:
        """See `ReadOnlyPlace.again`: all is listed again."""
        contents = contents_of(self.session.bucket)
        return replace(self, session=contents.session, contents=contents)

    def not_shown(self) -> Iterable[tuple[str, str]]:
        """See `ReadOnlyPlace.not_shown`; all is listed once more."""
        yield from self.contents.not_searched()
        yield from self.contents.appeared(_listed(self.session.bucket))

    def entry(self) -> Entry:
        """See `ReadOnlyPlace.entry`."""
        path = "/".join(self._parts())
        if not path and self.contents.classes:
            return directory_entry(self.name)
        if path in self.contents.entries:
            return self.contents.entries[path]
        if path and path in self.contents.inside and not self.session.has(path):
            return directory_entry(self.name)
        return super().entry()

    def entries(self) -> Iterable[Entry]:
        """See `ReadOnlyPlace.entries`."""
        path = "/".join(self._parts())
        inside = self.contents.inside.get(path)
        if inside is None:
            return super().entries()
        shown = [] if path and not self.session.has(path) else list(super().entries())
        names = {entry.stamp.name for entry in shown}
        return [*shown, *(entry for name, entry in inside.items() if name not in names)]

    def open(self) -> Bytes:
        """See `ReadOnlyPlace.open`."""
        stored = self.contents.files.get("/".join(self._parts()))
        if stored is None:
            return super().open()
        bucket = self.session.bucket
        if bucket.root is not None:
            path = bucket.root / stored.key
            return open_local(path, path, None)
        return ObjectBytes(self, entry_of_object(stored), bucket, stored.key)


def whole(place: Place) -> Place:
    """Return a log directory in a bucket with all objects that are there now; any other place, and
    one that is whole, as it is. Effects: lists the bucket; reads manifests; asks for the head of
    each object that is of no log.

    Raises:
        UnreadableFile: the bucket does not answer, or does not permit it.
        LogwrightError: as `Session.logs`.
    """
    if not isinstance(place, BucketPlace) or isinstance(place, WholeBucketPlace):
        return place
    contents = contents_of(place.session.bucket)
    return WholeBucketPlace(place.pure, place.scheme, contents.session, contents)


def contents_of(bucket: Bucket) -> Contents:
    """Return all objects of a log directory. Effects and errors: as `whole`."""
    seen = _listed(bucket)
    unread = dict(seen.unread)
    names = {name for key in _keys(seen) if (name := directory_of(key)) is not None}
    hidden = _hidden(seen, names)
    unread |= {f"{name}/{MANIFESTS}": _HIDDEN for name in hidden}
    contents = Contents(Session(bucket, only=frozenset(names - hidden)))
    contents.unread.update(unread)
    contents.classes.update(dict.fromkeys(unread, "unread"))
    logs = contents.session.logs()
    by_name: dict[str, list[str]] = {}
    foreign: list[Stored] = []
    for stored in sorted(seen.stored, key=lambda one: (one.key, one.bytes)):
        contents.stamps[stored.key] = stored.bytes, stored.e_tag
        name = directory_of(stored.key)
        if name is not None and stored.key.startswith((f"{name}/{DATA}", f"{name}/{MANIFESTS}")):
            by_name.setdefault(name, []).append(stored.key)
        else:
            foreign.append(stored)
    for name, keys in by_name.items():
        _sort(contents, name, keys, is_log=name in logs)
    _show(contents, bucket, foreign)
    return contents


def directory_of(key: str) -> str | None:
    """Return the partition's directory that a key is in, None if it is in none. Pure."""
    name, slash, _ = key.partition("/")
    return name if slash and TopicPartition.parse(name) else None


def _keys(seen: Everything) -> Iterator[str]:
    yield from (stored.key for stored in seen.stored)
    yield from seen.unread


def _listed(bucket: Bucket) -> Everything:
    try:
        return everything(bucket)
    except OSError as error:
        raise unreadable(error, bucket.url) from error


def _hidden(seen: Everything, names: set[str]) -> set[str]:
    """Return the partitions' directories whose versions the client cannot list: there is a name
    that it refuses.
    """
    refused = {key for key in _keys(seen) if key in seen.unread or _CONTROL.search(key)}
    within = {key.split("/")[0] for key in refused if f"{key}/".split("/")[1:2] == [_VERSIONS]}
    return names & within


def _sort(contents: Contents, name: str, keys: list[str], *, is_log: bool) -> None:
    """Say of the objects of a partition's data and versions what they are."""
    manifest = contents.session.manifest(name) if is_log else None
    if manifest is not None:
        of_version = manifest.state.keys()
        contents.shown.update(f"{name}/{key}" for key in of_version)
        contents.shown.add(f"{name}/{manifest_key(manifest.version)}")
    rest = [key for key in keys if key not in contents.shown]
    data = [key for key in rest if key.startswith(f"{name}/{DATA}")]
    if manifest is not None and not data:
        directory = contents.session.bucket.below(name)
        rest = [key for key in rest if not _adds_nothing(directory, key, name, manifest)]
    contents.classes.update(dict.fromkeys(keys, "shown"))
    contents.classes.update(dict.fromkeys(rest, "other version"))
    if rest:
        contents.others[name] = len(data) or len(rest)


def _adds_nothing(directory: Bucket, key: str, name: str, newest: Manifest) -> bool:
    """Return whether an earlier manifest holds nothing that the newest version does not show: the
    same files with the same begins and ends, the same settings. Effects: reads it.
    """
    version = version_of(key.removeprefix(f"{name}/"))
    try:
        earlier = None if version is None else drive(directory, read_manifest(version))
        if earlier is None:
            return False
        parse_leader_epochs(earlier.state.leader_epochs or b"0\n0\n", key)
    except LogwrightError:
        return False
    same = {file.key: file for file, _ in newest.state.files.values()}
    state = earlier.state
    files_are = all(same.get(file.key) == file for file, _ in state.files.values())
    return files_are and (state.partition, state.configs) == (
        newest.state.partition,
        newest.state.configs,
    )


def _show(contents: Contents, bucket: Bucket, foreign: list[Stored]) -> None:
    """Show objects as files. Effects: asks for their heads."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        entries = list(pool.map(lambda stored: _entry(bucket, stored), foreign))
    for stored, entry in zip(foreign, entries, strict=True):
        contents.classes[stored.key] = "unread" if entry is None else "file"
        if entry is None:
            contents.unread[stored.key] = _NOT_READ
            continue
        path = _path_of(contents, stored.key)
        above, _, name = path.rpartition("/")
        contents.files[path] = stored
        contents.entries[path] = _named(entry, name)
        _add(contents, above, contents.entries[path])


def _add(contents: Contents, above: str, entry: Entry) -> None:
    """Add a file, or a directory, to the directory that it is in."""
    if above not in contents.inside:
        contents.inside[above] = {}
        if above:
            higher, _, name = above.rpartition("/")
            _add(contents, higher, directory_entry(name))
    contents.inside[above][entry.stamp.name] = entry


def _entry(bucket: Bucket, stored: Stored) -> Entry | None:
    """Return what a file is, None if it cannot be read by its name. Effects: asks for it."""
    if bucket.root is not None:
        try:
            return entry_of(stored.key.rpartition("/")[2], (bucket.root / stored.key).lstat())
        except OSError:
            return None
    if stored.bytes and not bucket.is_as_listed(stored):
        return None
    return entry_of_object(stored)


def _named(entry: Entry, name: str) -> Entry:
    return entry._replace(stamp=entry.stamp._replace(name=name))


def _path_of(contents: Contents, key: str) -> str:
    """Return the path under which an object is shown: its key, if that is free."""
    path, parts = "", key.split("/")
    for number, part in enumerate(parts):
        name = part + _TAKEN if part in _BELIEVED or not part else part
        is_last = number == len(parts) - 1
        while _is_taken(contents, f"{path}{name}", as_file=is_last):
            name += _TAKEN
        path += name if is_last else f"{name}/"
    return path


def _is_taken(contents: Contents, path: str, *, as_file: bool) -> bool:
    if path in contents.entries or contents.session.has(path, as_file=True):
        return True
    return as_file and (path in contents.inside or contents.session.has(path))
