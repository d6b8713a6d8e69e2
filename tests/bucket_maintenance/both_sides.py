"""Sequences of changes of a log directory and of the same log in a bucket, with copies both ways.

Each record has a value of its own, so that bytes say what is where. Whatever happens, and wherever
a process ends: no value that was erased in the bucket is in a later version, none that was erased
in a directory is in that directory again; the log start offset in the bucket does not fall; what an
upload says it has written is there, besides what retention of the directory has deleted; what is
refused says why.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from logwright.bucket.commit import newest
from logwright.bucket.driver import drive
from logwright.bucket.manifest import Manifest
from logwright.bucket.store import Bucket
from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.log.load import observe
from logwright.maintenance.scrub import scrub
from tests.bucket_maintenance.breaking import Breaking, Killed, broken
from tests.bucket_maintenance.copies import T0, called, put, secret_in
from tests.log_builder import START_MS, LogBuilder

COMMANDS = ("grow", "grow", "clean", "retain", "roll", "undo", "erase", "new topic")
PLACES = ("directory", "bucket")
COPIES = ("upload", "upload", "download")
REFUSED = (
    "were erased from the log in the bucket",
    "records would be lost",
    "is of the topic",
    "in which the log directory's first one begins",
    "Run it again",
    "already has this partition",
    "cannot be read (EIO: no answer",
)
_VALUE = re.compile(rb"<[0-9]{4}>")
_DELETE = ("--config", "cleanup.policy=delete")


class Wrong(Exception):
    """Something is not as it must be."""


@dataclass(slots=True)
class BothSides:
    """One log, in a directory and in a bucket.

    Attributes:
        compacted: its topic is; else records go by retention alone.
        here, there: values that were erased in the directory, and in the bucket.
        start: the log start offset in the bucket.
        done: what was done, and how it ended.
    """

    root: Path
    draw: random.Random
    compacted: bool
    here: set[bytes] = field(default_factory=set)
    there: set[bytes] = field(default_factory=set)
    start: int = 0
    topics: int = 0
    values: int = 0
    done: Counter[str] = field(default_factory=Counter)

    @property
    def log_dir(self) -> Path:
        """The log directory."""
        return self.root / "logs"

    @property
    def bucket(self) -> Bucket:
        """The log directory in the bucket."""
        return Bucket.of(f"file://{self.root}/bucket")

    @property
    def newest(self) -> Manifest | None:
        """The newest version."""
        return drive(self.bucket.below("t-0"), newest())

    def began(self, agreement: bytes) -> None:
        """Write the log, and the first version."""
        self.new_topic()
        put(self.log_dir, self.bucket, agreement)

    def pairs(self) -> list[tuple[str, str]]:
        """Some records; each key is written again and again, the person's too."""
        self.values += 3
        keys = [self.draw.choice(("a", "b", "person")) for _ in range(3)]
        return [(key, f"<{self.values + number:04}>") for number, key in enumerate(keys)]

    def new_topic(self) -> None:
        """Make the log again, of a topic of the same name."""
        shutil.rmtree(self.log_dir, ignore_errors=True)
        self.topics, self.here = self.topics + 1, set()
        log = LogBuilder(self.log_dir)
        for base in range(0, 3 * self.draw.randrange(1, 4), 3):
            log.segment(base).batch(base, self.pairs())
        self.write(log)
        identity = f"AbCdEfGhIjKlMnOpQrSt{self.topics:02}"
        (log.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {identity}")

    def write(self, log: LogBuilder) -> None:
        """Write a log as a stopped broker leaves it."""
        log.write(producers=True, high_watermark=log.end_offset)

    def grow(self) -> None:
        """Append a segment."""
        end = observe(self.log_dir, T0, high_watermark="end").log_end_offset
        more = LogBuilder(self.root / "more")
        more.segment(end).batch(end, self.pairs())
        self.write(more)
        for path in more.directory.glob("0*"):
            shutil.copy2(path, self.log_dir / "t-0")
        for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
            offsets = serialize_offset_checkpoint({T0: more.end_offset})
            (self.log_dir / name).write_bytes(offsets)
        shutil.rmtree(more.log_dir)

    def change(self, command: str, place: str) -> None:
        """Change one of both sides by a command."""
        where: list[str | Path | int] = [self.log_dir if place == "directory" else self.bucket.url]
        words: list[str | Path | int] = ["--yes", "--now", START_MS + 1_000]
        policy = "compact" if self.compacted else "delete"
        match command:
            case "erase":
                (self.root / "keys").write_bytes(b"person")
                secret = secret_in(self.root)
                words += ["--keys", self.root / "keys", "--secret", secret, "--now-and-for-good"]
            case "retain":
                words += [*_DELETE, "--config", "retention.bytes=150"]
            case "clean":
                words += ["--config", "cleanup.policy=compact", "--force"]
            case "roll":
                words += ["--config", f"cleanup.policy={policy}", "--force"]
        had = self.persons(place) if command == "erase" else set()
        status = called(command, *where, *words).exit_code
        self.done[f"{command} {place}, {status}"] += 1
        if command == "erase" and status in (0, 9):
            (self.here if place == "directory" else self.there).update(had)

    def persons(self, place: str) -> set[bytes]:
        """The values of the person's records on one side."""
        batches = self.there_bytes() if place == "bucket" else self.here_bytes()
        return {match[1] for match in re.finditer(rb"person.(<[0-9]{4}>)", batches, re.DOTALL)}

    def here_bytes(self) -> bytes:
        """What the segments of the directory have."""
        logs = sorted((self.log_dir / "t-0").glob("*.log"))
        return b"".join(path.read_bytes() for path in logs)

    def there_bytes(self) -> bytes:
        """What the segments of the newest version have."""
        manifest, directory = self.newest, self.root / "bucket" / "t-0"
        segments = () if manifest is None else manifest.state.segments
        return b"".join((directory / one.log.key).read_bytes() for one in segments)

    def upload(self, between: Callable[[], None] | None) -> None:
        """Upload; the process may end, requests fail, or something come between."""
        before = self.newest
        breaking = Breaking(
            random.Random(self.draw.random()),
            fails=self.draw.choice((0.0, 0.0, 0.2)),
            dies=self.draw.choice((None, None, self.draw.randrange(20))),
            between=None if between is None else self.draw.randrange(12),
            what="change",
            other=between or (lambda: None),
        )
        words = ("--config", f"cleanup.policy={'compact' if self.compacted else 'delete'}")
        try:
            with broken(breaking):
                result = called("upload", self.log_dir, "--to", self.bucket.url, *words)
        except Killed:
            self.done["upload killed"] += 1
            return
        self.done[f"upload {result.exit_code}"] += 1
        if result.exit_code:
            if not any(words in result.stderr for words in REFUSED):
                raise Wrong(f"an upload was refused without a name: {result.stderr}")
            return
        if not breaking.seen["change between"]:
            self.written(before)

    def written(self, before: Manifest | None) -> None:
        """Require what an upload said: all of the directory from the bucket's log start on."""
        log, manifest = observe(self.log_dir, T0, high_watermark="end"), self.newest
        if manifest is None or manifest.state.log_end_offset != log.log_end_offset:
            raise Wrong("the version does not end where the directory does")
        first = manifest.state.segments[0].base_offset
        segments = [one for one in log.segments[:-1] if one.base_offset >= first]
        names = [self.log_dir / "t-0" / f"{one.base_offset:020d}.log" for one in segments]
        wanted = set(_VALUE.findall(b"".join(path.read_bytes() for path in names)))
        if wanted - set(_VALUE.findall(self.there_bytes())):
            raise Wrong("a record of the directory is not in the bucket")
        if before is not None and not self.compacted and before.state.topic_id:
            kept = [one for one in before.state.segments if one.base_offset < log.segments[0][0]]
            if not set(kept) <= set(manifest.state.segments):
                raise Wrong("what retention deleted here is not there any more")

    def download(self) -> None:
        """Restore the newest version, which becomes the log directory."""
        if self.newest is None or self.newest.state.topic_id is None:
            return
        target = self.root / "restored"
        result = called("download", self.bucket.url, "--to", target)
        if result.exit_code:
            raise Wrong(f"a download was refused: {result.stderr}")
        shutil.rmtree(self.log_dir)
        target.rename(self.log_dir)
        self.here = set(self.there)
        self.done["download"] += 1

    def look(self) -> None:
        """Require what is always so."""
        manifest = self.newest
        if self.there & set(_VALUE.findall(self.there_bytes())):
            raise Wrong("an erased value is in the bucket again")
        if self.here & set(_VALUE.findall(self.here_bytes())):
            raise Wrong("an erased value is in the directory again")
        if manifest is None:
            return
        if manifest.state.log_start_offset < self.start:
            raise Wrong("the log start offset fell")
        self.start = manifest.state.log_start_offset
        faults = scrub(self.bucket.below("t-0")).wrong
        if faults:
            raise Wrong(f"objects: {faults}")

    def step(self) -> None:
        """Do one thing."""
        draw = self.draw
        command, place = draw.choice(COMMANDS), draw.choice(PLACES)

        def change() -> None:
            if command == "grow":
                self.grow()
            elif command == "new topic":
                self.new_topic()
            else:
                self.change(command, place)

        copy = draw.choice(COPIES)
        if draw.random() < 0.5:
            change()
        elif copy == "download":
            self.download()
        else:
            self.upload(change if draw.random() < 0.5 and command != "new topic" else None)
        self.look()


def play(seed: int, root: Path, agreement: bytes) -> tuple[str, Counter[str]]:
    """Play a sequence; return what is wrong, empty if nothing, and what was done."""
    draw = random.Random(seed)
    sides = BothSides(root, draw, compacted=draw.random() < 0.5)
    try:
        sides.began(agreement)
        for _ in range(draw.randrange(3, 9)):
            sides.step()
    except Wrong as error:
        return f"{error} after {dict(sides.done)}", sides.done
    return "", sides.done
