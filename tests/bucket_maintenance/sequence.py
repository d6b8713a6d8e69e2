"""Sequences of commands on one log in a bucket: requests fail, processes end, others write between.

A log directory has the log as it must be. Each command of the bucket is made here, too, on a copy:
what the bucket shows afterwards must be the log from before, or from after. If the command says
that it is done, only the one from after will do. An upload may commit in the middle of a command:
then it came first, or last. A purge in the middle removes nothing that is needed. While somebody
has paused the log, or it is in quarantine, what leaves such logs alone changes nothing; a pause in
the middle of a command comes before its commit, or after.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from click.testing import Result

from logwright.bucket.manifest import STATES
from logwright.bucket.store import Bucket
from logwright.bucket.stored import DATA
from logwright.maintenance.scrub import scrub
from logwright.maintenance.split import run as split_run
from logwright.maintenance.undo import name_of
from logwright.place.named import place_of
from logwright.state.model import FIRST_RETRY_MS, NOTHING
from logwright.state.store import read_state
from tests.bucket_maintenance.breaking import Breaking, Killed, broken
from tests.bucket_maintenance.copies import (
    T0,
    called,
    differences,
    made_old,
    put,
    secret_in,
    unlike,
    version,
)
from tests.bucket_maintenance.random_logs import a_log, arguments, grown
from tests.log_builder import START_MS

HELD = ("pause", "resume", "quarantine", "release")
"""Commands that change the state, and nothing of the log."""
PLANNED = ("roll", "clean", "clean", "split", "retain", "erase")
"""Commands that plan, change a working copy and commit."""
UPLOAD = "upload"
PAUSE = "pause"
COMMANDS = (*PLANNED, UPLOAD, "purge", *HELD, *HELD)
CLEANING = ("clean", "split")
"""Commands that end a quarantine, and without ``--force`` leave a log in it alone."""
UNDONE = ("clean", "split", "retain")
DONE = {"erase": (0, 9)}
"""Exit statuses that say that a command is done, where that is not 0 alone."""
MOST_REQUESTS = (5, 20, 60)
"""Before which request something happens; a command that plans and commits sends some 30."""
OLD_DAYS = 8


class Wrong(Exception):
    """The bucket does not show what it must."""


@dataclass(slots=True)
class OneLog:
    """One log, here and in a bucket, and what was done with it.

    Attributes:
        before: the log from before the newest operation, if an undo restores it.
        known: the newest version.
        made: names of directories that were made.
        owners: who has paused it. unsure: of whom it is not known, since a command failed.
        is_quarantined: None: it is not known.
    """

    root: Path
    draw: random.Random
    before: Path | None = None
    known: int = 0
    made: int = 0
    owners: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    is_quarantined: bool | None = False
    done: Counter[str] = field(default_factory=Counter)

    @property
    def log_dir(self) -> Path:
        """The log as it must be."""
        return self.root / "logs"

    @property
    def scratch(self) -> Path:
        """Where the commands make working copies."""
        return self.root / "scratch"

    @property
    def bucket(self) -> Bucket:
        """What is compared with it."""
        return Bucket.of(f"file://{self.root}/bucket")

    def step(self) -> None:
        """Do something.

        Raises:
            Wrong: see there.
        """
        again = self.before is not None and self.draw.random() < 0.3
        command = "undo" if again else self.draw.choice(COMMANDS)
        if self.is_quarantined and not self.owners and self.draw.random() < 0.4:
            command = self.draw.choice(CLEANING)
        match command:
            case "upload":
                more = grown(self.log_dir, self._new(), self.draw)
                self._outcome(command, [more], self._call(lambda: upload(more, self.bucket)))
            case "undo" if self.before is not None:
                words = ("undo", self.bucket.url, "t-0", "--yes")
                if self._holds(words):
                    self._left_alone(words)
                    return
                self._outcome(command, [self.before], self._call(lambda: called(*words)))
            case "purge":
                self._purge(self._breaking())
            case _ if command in HELD:
                self._held(command)
            case _ if command in PLANNED:
                self._planned(command)

    def end(self) -> None:
        """Remove what nothing needs, and restore the log in a new directory.

        Raises:
            Wrong: objects are left that no version names, or working copies; or see `step`.
        """
        self._look()
        self._release()
        self._purge(Breaking(self.draw))
        left_states = self.bucket.listing(STATES)
        if len(left_states) > 1:
            raise Wrong(f"left: {left_states}")
        restored, words = self.root / "restored", ("download", self.bucket.url, "--to")
        for breaking in (self._breaking(), Breaking(self.draw)):
            result, _ = self._call(lambda: called(*words, restored), breaking)
        if result is None or result.exit_code or unlike(self.log_dir, restored):
            raise Wrong(f"restored: {result} {unlike(self.log_dir, restored)}")
        after = scrub(self.bucket.below(T0.directory_name))
        left = [each.name for each in self.scratch.iterdir()] if self.scratch.is_dir() else []
        if after.unnamed or after.earlier or after.wrong or left:
            raise Wrong(f"left: {after.unnamed} {after.earlier} {after.wrong} {left}")

    def _held(self, command: str) -> None:
        """Pause, resume, quarantine or release; of another owner meanwhile perhaps the same."""
        owner, breaking = self.draw.choice("abc"), self._breaking()
        words = {
            "pause": ("pause", "--reason", "x", "--owner", owner),
            "resume": ("resume", "--owner", owner),
            "quarantine": ("quarantine", "--set", "x"),
            "release": ("quarantine", "--clear"),
        }[command]
        is_pause, given = command in {"pause", "resume"}, ("--yes", "--now", START_MS)
        if self.draw.random() < 0.3:
            breaking.other = lambda: require(self._paused_by_another())
            breaking.between, breaking.what = self.draw.randrange(6), PAUSE
        call = lambda: called(words[0], self.bucket.url, "t-0", *words[1:], *given)  # noqa: E731
        result, faults = self._call(call, breaking)
        is_done = result is not None and result.exit_code == 0
        faultless = faults.fails == 0 and faults.dies is None
        if faultless and not is_done:
            raise Wrong(f"{command} failed: {result and result.output}")
        if faults.seen[f"{PAUSE} between"]:
            self.owners.add("other")
            self.unsure.discard("other")
        if is_pause:
            self.owners.discard(owner)
            self.unsure.discard(owner)
            if not is_done:
                self.unsure.add(owner)
            elif command == "pause":
                self.owners.add(owner)
        else:
            self.is_quarantined = command == "quarantine" if is_done else None
        self.done.update(faults.seen)
        self.done[f"{command}, {'done' if is_done else 'not known'}"] += 1
        self._look()

    def _look(self) -> None:
        """The state is what was answered; what is not known is known now.

        Raises:
            Wrong: it is not.
        """
        state = read_state(place_of(self.bucket.url)).get(T0, NOTHING)
        paused = {pause.owner for pause in state.pauses}
        if paused - self.unsure != self.owners:
            raise Wrong(f"paused by {paused}, not {self.owners}, unsure of {self.unsure}")
        is_quarantined = state.quarantine is not None
        if self.is_quarantined not in (None, is_quarantined):
            raise Wrong(f"in quarantine: {is_quarantined}")
        self.owners, self.unsure, self.is_quarantined = paused, set(), is_quarantined

    def _holds(self, words: Sequence[str | int | Path]) -> bool:
        """Return whether a command must leave the log alone."""
        if self.owners or not (self.is_quarantined and words[0] == "clean"):
            return bool(self.owners)
        now = words[words.index("--now") + 1]
        return "--force" not in words and int(str(now)) < START_MS + FIRST_RETRY_MS

    def _release(self) -> None:
        """Nothing is paused any more, nor in quarantine."""
        require(called("resume", self.bucket.url, "--yes"))
        require(called("quarantine", self.bucket.url, "--clear", "--yes"))
        self.owners, self.is_quarantined = set(), False
        self._look()

    def _left_alone(self, words: Sequence[str | int | Path]) -> None:
        """Call a command for a log that is held: its versions and objects stay as they are.

        Raises:
            Wrong: they do not, or it is not said why.
        """
        before = version(self.bucket)
        objects = {each.key for each in self.bucket.below(T0.directory_name).listing(DATA)}
        result, faults = self._call(lambda: called(*words))
        after = {each.key for each in self.bucket.below(T0.directory_name).listing(DATA)}
        if version(self.bucket) != before or objects != after:
            raise Wrong(f"{words[0]} changed a log that is held: {result and result.output}")
        faultless = faults.fails == 0 and faults.dies is None
        if faultless and (result is None or "t-0: skipped: " not in result.output):
            raise Wrong(f"{words[0]} did not say so: {result and result.output}")
        self.done.update(faults.seen)
        self.done[f"{words[0]}, skipped"] += 1
        self._look()

    def _new(self) -> Path:
        self.made += 1
        return self.root / f"made-{self.made}"

    def _request(self) -> int:
        return self.draw.randrange(self.draw.choice(MOST_REQUESTS))

    def _breaking(self) -> Breaking:
        kind = self.draw.choice(("none", "fails", "dies"))
        return Breaking(
            random.Random(self.draw.random()),
            fails=self.draw.choice((0.05, 0.2, 0.4)) if kind == "fails" else 0.0,
            dies=self._request() if kind == "dies" else None,
        )

    def _call(
        self, call: Callable[[], Result], breaking: Breaking | None = None
    ) -> tuple[Result | None, Breaking]:
        """Call a command; None: it was killed."""
        faults = self._breaking() if breaking is None else breaking
        with broken(faults):
            try:
                result = call()
            except Killed:
                return None, faults
        return result, faults

    def _planned(self, command: str) -> None:
        given = self._arguments(command)
        if self._holds(given):
            self._left_alone([given[0], self.bucket.url, *given[1:], "--scratch", self.scratch])
            return
        after = copied(self.log_dir, self._new())
        make(after, given)
        breaking, possible = self._breaking(), [after]
        if command != "erase" and self.draw.random() < 0.3:
            growth = self.draw.random()
            more = grown(self.log_dir, self._new(), random.Random(growth))
            first, last = copied(more, self._new()), self._new()
            make(first, given)
            grown(after, last, random.Random(growth))
            breaking.other = lambda: require(upload(more, self.bucket))
            breaking.between, breaking.what = self._request(), UPLOAD
            possible += [more, first, last]
        elif self.draw.random() < 0.3:
            breaking.other = lambda: require(called("purge", self.bucket.url, "--yes"))
            breaking.between, breaking.what = self._request(), "purge"
        elif self.draw.random() < 0.3:
            breaking.other = lambda: require(self._paused_by_another())
            breaking.between, breaking.what = self._request(), PAUSE
        words = [given[0], self.bucket.url, *given[1:], "--scratch", self.scratch]
        words += ["--split-bytes", 0] if command == "split" else []
        version_before = version(self.bucket).version
        call = self._call(lambda: called(*words), breaking)
        if breaking.seen[f"{PAUSE} between"]:
            self.owners.add("other")
        if command in CLEANING and self.is_quarantined:
            newest = version(self.bucket)
            is_cleaned = newest.version > version_before and name_of(newest.operation) == "clean"
            is_cleaned &= did(command, call[0])
            self.is_quarantined = False if is_cleaned else None  # nothing may have been due
        self._outcome(command, possible, call)
        self._look()

    def _paused_by_another(self) -> Result:
        words = ("--reason", "y", "--owner", "other", "--yes", "--now", START_MS)
        return called("pause", self.bucket.url, "t-0", *words)

    def _arguments(self, command: str) -> list[str | int | Path]:
        """The command that is made here, without the log directory."""
        if command == "erase":
            keys = self.root / "keys"
            some = self.draw.randrange(1, 4)
            keys.write_text("".join(f"k{self.draw.randrange(12)}\n" for _ in range(some)))
            secret = ("--secret", secret_in(self.root))
            at_once = ("--now-and-for-good", "--yes", "--now", START_MS)
            return [command, "--keys", keys, *secret, *at_once]
        name = "clean" if command == "split" else command
        given: list[str | int | Path] = [name, *arguments(name, self.draw)]
        if name == "clean" and self.is_quarantined and self.draw.random() < 0.5:
            now = given.index("--now") + 1
            given[now] = START_MS
            given.remove("--force")
        if command == "split":
            given += ["--config", f"segment.bytes={self.draw.choice((14, 300, 1 << 30))}"]
        return given

    def _purge(self, breaking: Breaking) -> None:
        """Remove what is old: all that is there is."""
        made_old(self.root / "bucket", days=OLD_DAYS)
        words = ("purge", self.bucket.url, "--yes")
        if self._holds(words):
            self._left_alone(words)
            self.before = None
            return
        self._outcome("purge", [self.log_dir], self._call(lambda: called(*words), breaking))
        self.before = None

    def _outcome(
        self, command: str, possible: Sequence[Path], call: tuple[Result | None, Breaking]
    ) -> None:
        """Compare the bucket with the log from before, and with what it may be now; continue with
        the one that it is.
        """
        result, breaking = call
        is_done = did(command, result)
        has_other = breaking.seen[f"{UPLOAD} between"] > 0
        faultless = breaking.fails == 0 and breaking.dies is None
        says = "" if result is None else result.output
        was_paused = breaking.seen[f"{PAUSE} between"] > 0 and "paused by other" in says
        has_excuse = was_paused or (has_other and "Run it again." in says)
        if faultless and not is_done and not has_excuse:
            raise Wrong(f"{command} failed: {says}")
        expected = self._expected(possible, is_done=is_done, has_other=has_other)
        faults = {}
        for each in expected:
            faults[each.name] = differences(each, self.bucket, self.root / "compared")
            if not faults[each.name]:
                break
        else:
            raise Wrong(f"{command}, done {is_done}, {dict(breaking.seen)}: {faults}")
        self.done.update(breaking.seen)
        self.done[f"{command}, {'done' if is_done else 'not known'}"] += 1
        self._go_on(command, each, has_other=has_other)

    def _expected(
        self, possible: Sequence[Path], *, is_done: bool, has_other: bool
    ) -> Sequence[Path]:
        if not has_other:
            return possible[:1] if is_done else (*possible[:1], self.log_dir)
        is_last = name_of(version(self.bucket).operation) == UPLOAD
        _, more, first, last = possible
        return (first, last, more) if is_last or not is_done else (first, last)

    def _go_on(self, command: str, now: Path, *, has_other: bool) -> None:
        """The log is this one from now on."""
        newest = version(self.bucket)
        if now in (self.before, self.log_dir):
            now = copied(now, self._new())
        if newest.version > self.known:
            kept = self.root / "before"
            shutil.rmtree(kept, ignore_errors=True)
            self.log_dir.rename(kept)
            is_undone = command in UNDONE and newest.version == self.known + 1 and not has_other
            self.before = kept if is_undone else None
        elif now != self.log_dir:
            shutil.rmtree(self.log_dir)
        if now != self.log_dir:
            now.rename(self.log_dir)
        self.known = newest.version
        for each in self.root.glob("made-*"):
            shutil.rmtree(each)


def did(command: str, result: Result | None) -> bool:
    """Return whether a command says that it is done, and not that the log was paused meanwhile."""
    if result is None or "t-0: skipped: paused by other" in result.output:
        return False
    return result.exit_code in DONE.get(command, (0,))


def copied(log_dir: Path, target: Path) -> Path:
    """Copy a log directory."""
    shutil.copytree(log_dir, target)
    return target


def make(log_dir: Path, given: Sequence[str | int | Path]) -> None:
    """Call a command for a log directory; it must succeed."""
    result = called(given[0], log_dir, *given[1:])
    if result.exit_code not in DONE.get(str(given[0]), (0,)):
        raise Wrong(f"here: {given[0]}: {result.output}")


def upload(log_dir: Path, bucket: Bucket) -> Result:
    """Call the command."""
    return called("upload", log_dir, "--to", bucket.url)


def require(result: Result) -> None:
    """It must have succeeded."""
    if result.exit_code:
        raise Wrong(f"between: {result.output}")


def play_sequence(seed: int, root: Path, agreement: bytes) -> tuple[list[str], Counter[str]]:
    """Return what is wrong after some steps, and what was done."""
    draw = random.Random(seed)
    sequence = OneLog(root, draw)
    a_log(sequence.log_dir, draw)
    put(sequence.log_dir, sequence.bucket, agreement)
    try:
        with patch.object(split_run, "SHARD_BYTES", 200):
            for _ in range(draw.randrange(1, 7)):
                sequence.step()
            sequence.end()
    except Wrong as error:
        return [str(error)], sequence.done
    return [], sequence.done
