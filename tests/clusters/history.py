"""Random histories of a cluster: producers, stops, kills and damages, and between them commands of
logwright on the log directories of brokers that do not run. Judged by what was acknowledged.

A history consists of rounds. Each begins and ends with all replicas in sync, and is judged there.
In a round either brokers are killed, or one disk loses something: both at once lose records without
any command.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from tests.clusters.replica import MARKER, Batch, batches_on_disk
from tests.clusters.written import KEYS, Produced
from tests.e2e.command import Answer, call

BROKERS: Final = (1, 2, 3)
PARTITION: Final = "t-0"
MIN_ISR: Final = 2
HOWS: Final = ("plain", "plain", "idempotent", "commit", "abort", "unheard")
QUORUM_LOST: Final = 0.3
"""How often a round begins with that."""
EARLIER: Final = 0.5
"""How often one broker stops earlier than the others, before the quorum is lost."""
ALONE: Final = "the only replica in sync"
_LOSES: Final = 11
"""The status of a rescue after which a broker starts, without records that were there."""


class Difference(AssertionError):
    """A promise of the cluster is broken."""


class Cluster(Protocol):
    """A cluster of three brokers, `tests.clusters.cluster.ModelCluster` or real ones."""

    @property
    def leader(self) -> int:
        """Who leads, -1: nobody."""

    @property
    def isr(self) -> set[int]:
        """Who is in sync."""

    def log_dir(self, broker: int) -> Path:
        """Of a broker."""

    def start(self, broker: int) -> None:
        """Start it."""

    def stop(self, broker: int) -> None:
        """Stop it cleanly."""

    def kill(self, broker: int) -> None:
        """End it at once."""

    def elect_unclean(self) -> None:
        """Let any replica lead."""

    def produce(self, records: list[Produced], how: str) -> bool:
        """Whether all of the records were acknowledged."""

    def all_in_sync(self) -> bool:
        """Whether all replicas are, once they had time."""

    def consumed(self) -> list[tuple[bytes, bytes | None]]:
        """Key and value of all that a consumer of committed records gets."""

    def lose_quorum(self) -> Answer | None:
        """The controllers' disks are lost while all brokers are stopped, with what the brokers have
        of the newest producer id, and the quorum is rescued. None: not here.
        """

    def logs(self) -> dict[int, list[Batch]]:
        """The batches of each replica."""


@dataclass(slots=True)
class History:
    """One history while it happens.

    Attributes:
        acknowledged, perhaps, aborted: what producers wrote.
        down: brokers that do not run.
        lacks: the broker whose disk lost something in this round, None: none did.
        alone: it is said of that one that it leads whatever it lacks.
        kills: brokers are killed in this round.
        did: what happened, for a message.
    """

    cluster: Cluster
    draw: random.Random
    acknowledged: list[Produced] = field(default_factory=list)
    perhaps: list[Produced] = field(default_factory=list)
    aborted: set[int] = field(default_factory=set)
    down: set[int] = field(default_factory=set)
    lacks: int | None = None
    alone: bool = False
    kills: bool = False
    did: list[str] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    _next: int = 1

    def run(self, rounds: int) -> None:
        """Do some rounds.

        Raises:
            Difference: a promise is broken.
        """
        for broker in BROKERS:
            self.cluster.start(broker)
        self._require_in_sync()
        self._judge()
        for number in range(rounds):
            if number and self.draw.random() < QUORUM_LOST:
                self._lose_quorum()
            self.kills, self.lacks, self.alone = self.draw.random() < 0.5, None, False
            for _ in range(self.draw.randint(4, 14)):
                self._step()
            self._all_up()
            self._judge()

    def _step(self) -> None:
        choices: list[Callable[[], None]] = [self._produce] * 3
        if self.down:
            choices += [self._start, *[self._command] * 4]
            if not self.kills and self.lacks is None:
                choices += [self._damage] * (6 if len(self.down) == len(BROKERS) else 2)
        if len(self.down) < len(BROKERS):
            choices += [self._stop] * 2 + [self._kill] * (2 if self.kills else 0)
        self.draw.choice(choices)()

    def _note(self, text: str) -> None:
        self.did.append(text)
        self.tally[text.split(" of ", maxsplit=1)[0]] += 1

    def _lose_quorum(self) -> None:
        """A producer gets an id, other brokers lead, perhaps one stops earlier than the others, and
        the cluster forgets that; then another producer comes, and one while the last broker has not
        started.
        """
        count = self.draw.randint(1, 4)
        self._produce("idempotent", count)
        for _ in range(self.draw.randint(0, 3)):
            before = self.cluster.leader
            self.cluster.stop(before)
            self._started(before)
            self._require_in_sync()
        self._produce("plain")
        self._produce("unheard")
        earlier, *others = self.draw.sample(BROKERS, len(BROKERS))
        self.cluster.stop(earlier)
        if self.draw.random() < EARLIER:
            self._note(f"stop of {earlier}")
            self._produce("plain")
        for broker in others:
            self.cluster.stop(broker)
        answer = self.cluster.lose_quorum()
        first, second, last = self.draw.sample(BROKERS, len(BROKERS))
        self._started(first)
        self._started(second)
        self._produce("plain")
        self._started(last)
        self._require_in_sync()
        if answer is not None:
            self._note(f"quorum {answer.status} of the cluster")
            if answer.status:
                raise Difference(f"quorum: {answer.out} {answer.err}")
        self._produce("idempotent", count)
        self._judge()

    def _produce(self, how: str = "", count: int = 0) -> None:
        how = how or self.draw.choice(HOWS)
        records = []
        for _ in range(count or self.draw.randint(1, 4)):
            is_tombstone = self.draw.random() < 0.2
            records.append(Produced(self._next, self.draw.choice(KEYS), is_tombstone))
            self._next += 1
        done = self.cluster.produce(records, how)
        if how == "abort":
            self.aborted |= {each.number for each in records}
        else:
            (self.acknowledged if done else self.perhaps).extend(records)
        self._note(f"produce {how} {'acknowledged' if done else 'or not'} of {records}")

    def _stop(self) -> None:
        broker = self.draw.choice([each for each in BROKERS if each not in self.down])
        self.cluster.stop(broker)
        self.down.add(broker)
        self._note(f"stop of {broker}")

    def _kill(self) -> None:
        broker = self.draw.choice([each for each in BROKERS if each not in self.down])
        self.cluster.kill(broker)
        self.down.add(broker)
        self._note(f"kill of {broker}")

    def _start(self) -> None:
        if self.alone:
            return
        broker = self.draw.choice(sorted(self.down))
        self._started(broker)
        self.down.discard(broker)

    def _started(self, broker: int) -> None:
        self.cluster.start(broker)
        leader, in_sync = self.cluster.leader, self.cluster.isr
        self._note(f"start of {broker}, leader {leader}, in sync {in_sync}")

    def _command(self) -> None:
        for broker in self.draw.sample(sorted(self.down), self.draw.randint(1, len(self.down))):
            name = self.draw.choice(sorted(COMMANDS))
            answer = COMMANDS[name](self, self.cluster.log_dir(broker))
            if answer is None:
                continue
            self._note(f"{name} {answer.status} of {broker}")
            if name in LOSING and not (name == "delete" and answer.status):
                self._loses(broker, answer)

    def _damage(self) -> None:
        """A disk loses something of a replica that was stopped cleanly; an operator sees that, and
        rescues it.
        """
        broker = self.draw.choice(sorted(self.down))
        log_dir = self.cluster.log_dir(broker)
        logs = sorted((log_dir / PARTITION).glob("*.log"))
        if not logs or not (log_dir / MARKER).exists():
            return
        path = logs[-1]
        if self.draw.random() < 0.7 and path.stat().st_size:
            at = self.draw.randrange(path.stat().st_size)
            content = path.read_bytes()
            path.write_bytes(content[:at] + bytes(self.draw.choice((0, len(content) - at))))
        else:
            path.unlink()
        first = self.draw.choice((["rescue"], []))
        for command in (*first, "recover"):
            answer = call(command, log_dir, "--yes", "--accept-loss")
            self._note(f"damage and {command} {answer.status} of {broker}")
            if answer.status not in (0, _LOSES if ALONE in answer.out else 0):
                raise Difference(f"{command}: {answer.out} {answer.err}")
            if 0 == call("verify", log_dir).status:
                break
        self._loses(broker, answer)

    def _loses(self, broker: int, answer: Answer) -> None:
        self.lacks, self.alone = broker, ALONE in answer.out + answer.err

    def _all_up(self) -> None:
        """Start all, in any order; last one of which it is said that it leads whatever it lacks."""
        if self.alone and self.lacks in self.down:
            self._others_first()
        for broker in self.draw.sample(sorted(self.down), len(self.down)):
            self._started(broker)
        self.down.clear()
        self._require_in_sync()

    def _require_in_sync(self) -> None:
        if not self.cluster.all_in_sync():
            raise Difference(f"leader {self.cluster.leader}, in sync {self.cluster.isr}")

    def _others_first(self) -> None:
        """What is said of a replica that leads whatever it lacks."""
        others = [each for each in BROKERS if each != self.lacks]
        for each in others:
            self.cluster.stop(each)
        broker = max(others, key=self._most)
        self._started(broker)
        self.down = set(BROKERS) - {broker}
        self.cluster.elect_unclean()
        self._note(f"unclean election of {self.cluster.leader}")

    def _most(self, broker: int) -> tuple[int, int]:
        """The last leader epoch of a replica, -1: it never had one, and where its log ends."""
        directory = self.cluster.log_dir(broker) / PARTITION
        epochs = (directory / "leader-epoch-checkpoint").read_text().split()[2:]
        last = max([each.last for each in batches_on_disk(directory)], default=-1)
        return int(epochs[-2]) if epochs else -1, last

    def _judge(self) -> None:
        """All acknowledged records are read, none twice; replicas do not differ."""
        self._require_alike()
        seen: Counter[int] = Counter()
        latest: dict[str, int | None] = {}
        for key, value in self.cluster.consumed():
            number = None if value is None else int(value)
            if number is not None:
                seen[number] += 1
            latest[key.decode()] = number
        if twice := [number for number, count in seen.items() if count > 1]:
            raise Difference(f"read twice: {twice}")
        if shown := self.aborted & set(seen):
            raise Difference(f"aborted, and read: {shown}")
        for key in KEYS:
            self._require_latest(key, latest.get(key))

    def _require_latest(self, key: str, number: int | None) -> None:
        own = [each for each in self.acknowledged if each.key == key]
        last = max(own, key=lambda each: each.number, default=None)
        if last is None:
            return
        later = [each for each in self.perhaps if each.key == key and each.number > last.number]
        allowed = {None if each.is_tombstone else each.number for each in (last, *later)}
        if number not in allowed:
            raise Difference(f"key {key}: {number} is read, acknowledged was {last}")

    def _require_alike(self) -> None:
        at: dict[int, tuple[int, object]] = {}
        for broker, batches in self.cluster.logs().items():
            for batch in batches:
                for record in batch.records():
                    what = (batch.epoch, record.key, record.value)
                    other = at.setdefault(record.offset, (broker, what))
                    if other[1] != what:
                        raise Difference(
                            f"offset {record.offset}: {other[0]} has {other[1]}, {broker} {what}"
                        )


def _plain(*words: str) -> Callable[[History, Path], Answer]:
    def run(history: History, log_dir: Path) -> Answer:
        del history
        return call(words[0], log_dir, *words[1:])

    return run


def _latest(history: History, log_dir: Path) -> Answer:
    del history
    return call("latest", log_dir, "t", "--to", log_dir.with_name(f"{log_dir.name}-table"))


def _erase(history: History, log_dir: Path) -> Answer:
    """By a tombstone: only the leader appends."""
    keys = log_dir.with_name(f"{log_dir.name}-keys")
    keys.write_text(f"{history.draw.choice(KEYS)}\n")
    return call("erase", log_dir, "--keys", keys, "--yes")


def _may_lose(history: History, log_dir: Path) -> bool:
    """Whether a replica may have less now: of one broker a round, and not where others were
    killed.
    """
    is_stopped = (log_dir / MARKER).exists()
    return not history.kills and history.lacks is None and is_stopped


def _delete(history: History, log_dir: Path) -> Answer | None:
    """An operator deletes a whole log, so that the broker fetches it again."""
    if not _may_lose(history, log_dir):
        return None
    return call("delete", log_dir, PARTITION, "--yes")


def _set_aside(history: History, log_dir: Path) -> Answer | None:
    """The same by a rescue, which keeps it."""
    if not _may_lose(history, log_dir) or not (log_dir / PARTITION).exists():
        return None
    return call("rescue", log_dir, "--set-aside", log_dir / PARTITION, "--yes")


def _backup(log_dir: Path) -> str:
    return f"file://{log_dir.with_name(f'{log_dir.name}-backup')}"


def _upload(history: History, log_dir: Path) -> Answer:
    """A backup of the replica as it is now."""
    del history
    return call("upload", log_dir, "--to", _backup(log_dir))


def _restore(history: History, log_dir: Path) -> Answer | None:
    """A disk has lost the log. An operator brings an older one back, or lets the broker start
    without.
    """
    if not _may_lose(history, log_dir):
        return None
    shutil.rmtree(log_dir / PARTITION, ignore_errors=True)
    brought = history.draw.choice(
        (
            ("download", _backup(log_dir), PARTITION, "--to", log_dir),
            ("rescue", log_dir, "--undo", "--yes"),
            ("undo", log_dir, PARTITION, "--yes"),
        )
    )
    answer = call(*brought)
    if (log_dir / PARTITION).exists():
        return answer
    return call("rescue", log_dir, "--yes", "--accept-loss")


COMMANDS: Final[Mapping[str, Callable[[History, Path], Answer | None]]] = {
    "clean": _plain("clean", "--yes", "--config", "min.cleanable.dirty.ratio=0"),
    "roll": _plain("roll", "--force", "--yes"),
    "maintain": _plain("maintain", "--yes"),
    "recover": _plain("recover", "--yes"),
    "rescue": _plain("rescue", "--yes"),
    "undo": _plain("undo", PARTITION, "--yes"),
    "verify": _plain("verify"),
    "doctor": _plain("doctor"),
    "latest": _latest,
    "erase": _erase,
    "delete": _delete,
    "set aside": _set_aside,
    "upload": _upload,
    "restore": _restore,
}
LOSING: Final = frozenset(("delete", "set aside", "restore"))
"""Commands after which a replica lacks records, or may."""
