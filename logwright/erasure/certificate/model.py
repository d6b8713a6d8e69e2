"""What a certificate says, as values with exactly one form.

Times are ms since the epoch (UTC), sizes and positions bytes. A key is only ever its HMAC-SHA-256
with the deployment's secret, in hex.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from logwright.erasure.find.model import Kind, Looked
from logwright.units import INT64_MAX

FORMAT: Final = "logwright erasure certificate"
VERSION: Final = 4
"""Since 4 a certificate has its issuer, the id of each request and what is on record of it, and the
number of byte patterns. Since 3 it says how a directory was searched that a broker had open. Since
2 it has the account: `looked`, `topics`, `erased`, the ranges and topics of `not_read`, and the
state ``not found``. Those of versions 1 to 3 are still read."""

NO_ISSUER: Final = "not given"
"""What is shown of an empty issuer."""

Hex32 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Time = Annotated[int, Field(ge=0, le=INT64_MAX)]
Count = Annotated[int, Field(ge=0, le=INT64_MAX)]
Int64 = Annotated[int, Field(ge=-INT64_MAX - 1, le=INT64_MAX)]

State = Literal[
    "missed",
    "will be late",
    "remains",
    "not proved",
    "gone as bytes",
    "in time",
    "not found",
    "gone",
]
"""Of a request, the worst first; `logwright.erasure.outlook.verdict` has the rules."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PathName(_Value):
    """A path relative to a directory. A name that is not UTF-8 is in hex.

    Attributes:
        text: the path, empty if `hex` has it.
        hex: its bytes.
    """

    text: str = ""
    hex: Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$")] = ""

    @classmethod
    def of(cls, path: str) -> PathName:
        """Return the value of a path as `os` has it."""
        try:
            path.encode()
        except UnicodeEncodeError:
            return cls(hex=os.fsencode(path).hex())
        return cls(text=path)

    @property
    def path(self) -> str:
        """The path as `os` takes it."""
        return os.fsdecode(bytes.fromhex(self.hex)) if self.hex else self.text


class ManifestFile(_Value):
    """A file that was seen.

    Attributes:
        directory: number of its directory, from 0.
        looked: how it was searched; None in a certificate of version 1.
    """

    directory: Count
    path: PathName
    bytes: Count
    sha256: Hex32
    looked: Looked | None = None


class NotRead(_Value):
    """What was not searched, and why: a path below a directory, or a place that it stands for, such
    as remote storage.

    Attributes:
        topic: whose records can be there, empty: any.
        position, bytes: of the part that was not searched; 0 and -1: all of it.
    """

    directory: Count
    path: PathName
    why: str
    topic: str = ""
    position: Count = 0
    bytes: Annotated[int, Field(ge=-1, le=INT64_MAX)] = -1


class Cluster(_Value):
    """The cluster's metadata, as far as it was read.

    Attributes:
        end_offset: of the metadata log, exclusive.
    """

    cluster_id: str | None
    end_offset: Int64
    snapshot: str | None


class RunningLog(_Value):
    """A log of a directory that a broker had open, as far as it is committed. Offsets are
    exclusive; -1: not known.

    Attributes:
        topic, partition: whose log it is.
        taken_at_ms: when its files were looked at.
        end_offset: what was searched: the end of the last whole batch.
        bound: below it all is committed: the high watermark, or where the files ended.
        last_stable_offset: below it no transaction is open.
        recorded_at_ms: when the broker recorded the high watermark; 0: not known.
    """

    topic: str
    partition: Int64
    taken_at_ms: Time
    end_offset: Int64
    bound: Int64
    last_stable_offset: Int64
    recorded_at_ms: Time


class Running(_Value):
    """How a directory was searched that a broker had open.

    Attributes:
        begun_at_ms, taken_at_ms: when the first, and the last, of its logs was looked at.
        logs: those of the requests' topics.
        snapshots: how often all of it was looked at; 2: the first time there were files that the
            broker was writing or about to delete, and something was not found.
        passed: those files, of the first time: gone by the second.
        gone: directories that went before they could be opened.
    """

    begun_at_ms: Time
    taken_at_ms: Time
    snapshots: Count
    logs: tuple[RunningLog, ...]
    passed: tuple[PathName, ...]
    gone: tuple[PathName, ...]


class Directory(_Value):
    """A directory that was searched.

    Attributes:
        path: absolute, when the certificate was made; empty if it is not UTF-8.
        path_hex: its bytes then.
        cluster: None: unknown.
        node_id: of the broker whose directory it is, None: unknown.
        running: None: no broker had it open, or it is a certificate of before there was this.
        objects: its files are the objects below a prefix of a bucket, as they are there. A log
            directory in a bucket has the files of its logs instead.
    """

    path: str
    files: Count
    bytes: Count
    cluster: Cluster | None
    node_id: int | None
    path_hex: Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$")] = ""
    running: Running | None = None
    objects: bool = False

    @property
    def name(self) -> PathName:
        """The path as other paths are."""
        return PathName(text=self.path, hex=self.path_hex)


class Deed(_Value):
    """What is on record of a request; as `logwright.erasure.account.Deed`.

    Attributes:
        topic: empty: not known.
        of_key: it shows that the key was there.
    """

    topic: str
    at_ms: Time | None
    what: str
    of_key: bool


class Asked(_Value):
    """A request and what became of it.

    Attributes:
        id: its name in the operator's system, or the line of a key that was given in clear; empty
            in a certificate of before there was this.
        topics: a topic, or a pattern with ``regex:`` before it.
        received_at_ms, deadline_ms: None: not given.
        found: number of records that were found.
        gone_by_ms: when the last of them is gone, None: nothing was found, or never.
        why: what the state rests on, empty if on what was found.
        deeds: what is on record, the last one last.
        decoded: the key was given decoded: its records in every form were searched for.
        other_forms: HMACs of keys that were found besides: other forms of the key, of which the
            records are not among `found`.
    """

    hmac: Hex32
    topics: str
    received_at_ms: Time | None
    deadline_ms: Time | None
    state: State
    found: Count
    gone_by_ms: Time | None
    why: str = ""
    id: str = ""
    deeds: tuple[Deed, ...] = ()
    decoded: bool = False
    other_forms: tuple[Hex32, ...] = ()


class Remains(_Value):
    """A record that was found; as `logwright.erasure.find.model.Finding`.

    Attributes:
        request: number of the request, from 0; -1: none, a byte pattern was found.
        directory: number of the directory, from 0.
    """

    request: Annotated[int, Field(ge=-1, le=INT64_MAX)]
    directory: Count
    topic: str
    partition: Int64
    path: PathName
    place: str
    offset: Int64
    batch_position: Int64
    kind: Kind
    rule: str
    gone_by_ms: Time | None
    committed: bool | None = None


class Replicas(_Value):
    """Brokers that have replicas of a topic by the cluster's metadata, and whose directories were
    not searched.
    """

    topic: str
    brokers: tuple[int, ...]


class Versions(_Value):
    """The programs that made the certificate."""

    logwright: str
    python: str
    cryptography: str


class Certificate(_Value):
    """All that is signed.

    Attributes:
        signing_key_sha256: the public key's fingerprint.
        not_seen: what is not proved, as sentences: what no search of files can see, and what was
            not searched for.
        hard_linked: files with more names than the directories have.
        topics: that exist, by logs, metadata and earlier certificates.
        erased: topics of which an erasure or a deletion is on record.
        issuer: who says all this, as the operator names it; empty: not given.
        patterns: number of byte patterns that were searched for, besides the keys.
        hidden: number of names, of paths and topics, in which a key was replaced by ``hidden-`` and
            the first 16 digits of its HMAC.
    """

    format: Literal["logwright erasure certificate"] = FORMAT
    format_version: Literal[1, 2, 3, 4] = VERSION
    issued_at_ms: Time
    signing_key_sha256: Hex32
    versions: Versions
    directories: tuple[Directory, ...]
    requests: tuple[Asked, ...]
    remains: tuple[Remains, ...]
    not_read: tuple[NotRead, ...]
    hard_linked: tuple[NotRead, ...]
    replicas_not_searched: tuple[Replicas, ...]
    not_seen: tuple[str, ...]
    manifest: tuple[ManifestFile, ...]
    topics: tuple[str, ...] = ()
    erased: tuple[str, ...] = ()
    issuer: str = ""
    patterns: Count = 0
    hidden: Count = 0

    def files_of(self, directory: int) -> dict[str, ManifestFile]:
        """Return path → file of a directory."""
        return {one.path.path: one for one in self.manifest if one.directory == directory}

    def count(self, state: State) -> int:
        """Return the number of requests in a state."""
        return sum(one.state == state for one in self.requests)


_COPIES: Final = (
    "Backups and other copies of files; what consumers, connectors and tiered storage have kept."
)
_COPIES_OF_TIER: Final = (
    "Backups and other copies of files and objects, old versions of objects, and remote segments in"
    " other buckets; what consumers and connectors have kept."
)
_OTHER_KEYS: Final = (
    "Persons in the values and headers of records with other keys: these were not searched."
)
_OTHER_KEYS_BUT_PATTERNS: Final = (
    "Persons in the values and headers of records with other keys, but for the byte patterns that"
    " were searched for."
)
NOT_SEEN: Final = (
    _OTHER_KEYS,
    "The same person under other keys, but for those that are the requested ones in another form.",
    "That the requests are complete: who was not asked for was not searched for.",
    "Snapshots of file systems and volumes: they keep the blocks of files that were deleted.",
    "Replicas and log directories that were not given to the search.",
    _COPIES,
    "Blocks that a drive has replaced and not overwritten yet (SSD remnants), and free blocks.",
    "Other names (hard links) of the files outside of the directories.",
    "Memory: page caches, swap space and core dumps.",
    "Copies that commands of logwright used then, and what killed ones left on other machines.",
)
"""What is not proved: what the search was not for, and what no search of files can see."""
NOT_SEEN_RUNNING: Final = (
    "What a broker that ran received after the files were looked at, and what only its memory had.",
    "Where its logs really started: it records that each minute; what is found may be deleted.",
    "What an unclean election, or a loss of power, takes from its logs later, or brings back.",
)
"""What is not proved besides, while a broker has a directory open."""


def not_seen_in(url: str) -> tuple[str, ...]:
    """Return what a search cannot see besides in the bucket of a URL: the client cannot ask for it.
    A directory of a file system has nothing of that. Pure.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "file":
        return ()
    bucket = f"{scheme}://{rest.partition('/')[0]}"
    kept = "old versions of objects, or parts of uploads that were not finished"
    return (f"Whether {bucket} keeps {kept}: it was not asked.",)


def not_seen(
    *, running: bool, tier: bool, buckets: Iterable[str] = (), patterns: bool = False
) -> tuple[str, ...]:
    """Return what a certificate does not prove. Pure.

    Args:
        running: a broker had a directory open. tier: remote segments were searched.
        buckets: the URLs of directories in a bucket. patterns: byte patterns were searched for.
    """
    instead = {_COPIES: _COPIES_OF_TIER} if tier else {}
    if patterns:
        instead[_OTHER_KEYS] = _OTHER_KEYS_BUT_PATTERNS
    in_buckets = dict.fromkeys(line for url in buckets for line in not_seen_in(url))
    lines = tuple(instead.get(line, line) for line in NOT_SEEN)
    return lines + NOT_SEEN_RUNNING * running + tuple(in_buckets)
