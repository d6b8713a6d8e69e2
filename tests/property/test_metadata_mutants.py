"""Whatever a disk has made of a metadata log, a reader has the state of a sound prefix, or refuses.

What one damage must lead to follows from where it is, by this table. A batch's CRC covers all but
its first 21 bytes; of these the leader epoch does not affect the state.

===================================  ===========================================================
damage to                            outcome
===================================  ===========================================================
a file that is not read              the sound state
leader epoch                         the sound state
base offset                          a refusal: it is not after the batch before
magic                                a refusal; of the last batch also the state before it
anything else of the last batch      the state before it, as a torn tail
anything else of another batch       a refusal
a snapshot's last batch, or its end  the sound state by the log, or a refusal where it has not all
===================================  ===========================================================

"The last batch" is that of the last segment; of several damaged batches the first counts, and they
are a torn tail if no sound batch lies after it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from logwright.errors import CorruptLogError, LogwrightError, UnsupportedFormatError
from logwright.format.batch import BatchSpan, walk_batches
from logwright.metadata.read import read_metadata
from tests.differential.oracle_server import shared
from tests.differential.random_logs import scratch_directory
from tests.differential.random_metadata import State, our_state, write_metadata
from tests.property import mutations

MUTANTS = 100
NIGHTLY_MUTANTS = 2_000
MUTANTS_PER_DIRECTORY = 5
LENGTH_AT, EPOCH_AT, MAGIC_AT = 8, 12, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What may come of a mutant: one of these states, or a refusal."""

    states: tuple[State, ...]
    may_refuse: bool


REFUSAL = Outcome(states=(), may_refuse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """A directory as Kafka's classes wrote it, without a torn tail.

    Attributes:
        read: names of the files that the state comes from, and of incomplete snapshots.
        last: of the last segment.
    """

    path: Path
    state: State
    read: frozenset[str]
    last: str

    def state_before(self, position: int) -> State | LogwrightError:
        """The state if the last segment is cut there; a refusal if a snapshot that was not written
        to its end is above it. Effects: truncates it, and restores it.
        """
        segment = self.path / self.last
        with replaced(segment, segment.read_bytes()[:position]):
            return state_or_refusal(self.path)


def examine(path: Path, expected: State) -> Sound:
    """The directory, whose state must be Kafka's."""
    metadata = read_metadata(path)
    assert expected == our_state(metadata)
    names = sorted(each.name for each in path.iterdir())
    logs = [name for name in names if name.endswith(".log")]
    start = 0 if metadata.snapshot is None else int(metadata.snapshot[:20])
    first = max((name for name in logs if int(name[:20]) <= start), default=logs[0])
    read = [name for name in logs if name >= first]
    read += [name for name in names if name.endswith("t") and name >= (metadata.snapshot or "")]
    return Sound(path=path, state=expected, read=frozenset(read), last=logs[-1])


def mutate(content: bytes, random: Random) -> bytes:
    """One damage, which changes something."""
    damaged = bytearray(content)
    kind = random.randrange(10)
    if kind < 4:
        damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    elif kind < 7:
        spans = list(walk_batches(content)) if content[17:] else []
        start = random.choice(spans).position if spans else 0
        damaged[min(start + random.randrange(61), len(damaged) - 1)] ^= 1 << random.randrange(8)
    elif kind == 7:
        for _ in range(3):
            damaged[random.randrange(len(damaged))] ^= random.randrange(1, 256)
    elif kind == 8:
        del damaged[random.randrange(len(damaged)) :]
    else:
        start = random.randrange(len(damaged))
        size = random.choice((1, 8, 61, 4096))
        damaged[start : start + size] = bytes(len(damaged[start : start + size]))
    return bytes(damaged) if bytes(damaged) != content else content[:-1]


def damaged_spans(content: bytes, mutant: bytes) -> list[tuple[BatchSpan, set[int]]]:
    """The batches that differ in more than the leader epoch, and which of their bytes."""
    spans = []
    for span in walk_batches(content):
        end = span.position + span.bytes
        differ = {
            at - span.position
            for at in range(span.position, end)
            if at >= len(mutant) or mutant[at] != content[at]
        } - set(range(EPOCH_AT, MAGIC_AT))
        if differ:
            spans.append((span, differ))
    return spans


def allowed(sound: Sound, name: str, content: bytes, mutant: bytes) -> Outcome:
    """What may come of it: the table above."""
    spans = list(walk_batches(content))
    damaged = damaged_spans(content, mutant)
    if name not in sound.read or not damaged:
        return Outcome(states=(sound.state,), may_refuse=False)
    first, differ = damaged[0]
    behind = [span for span in spans if span.position > first.position]
    is_tail = len(behind) == len(damaged) - 1
    if name.endswith(".checkpoint"):
        return Outcome(states=(sound.state,), may_refuse=True) if is_tail else REFUSAL
    is_moved = len(mutant) == len(content) and max(differ) < LENGTH_AT
    if name != sound.last or not is_tail or is_moved:
        return REFUSAL
    before = sound.state_before(first.position)
    if isinstance(before, LogwrightError):
        return REFUSAL
    several = len(differ) > 1 or len(damaged) > 1
    may_refuse = len(mutant) == len(content) and (several or differ == {MAGIC_AT})
    return Outcome(states=(before,), may_refuse=may_refuse)


@contextmanager
def replaced(file: Path, content: bytes) -> Iterator[None]:
    """A file with another content for a while; snapshots are read-only."""
    sound = file.read_bytes()
    file.chmod(0o600)
    file.write_bytes(content)
    try:
        yield
    finally:
        file.write_bytes(sound)


def run_mutants(seed: int, count: int) -> Counter[str]:
    """Damage directories, read each; what came of them."""
    counts: Counter[str] = Counter()
    random = Random(seed)
    seeds = range(seed * 1_000_000, seed * 1_000_000 + count // MUTANTS_PER_DIRECTORY)
    with (
        scratch_directory() as scratch,
        closing(write_metadata(shared(), seeds, scratch, torn=False)) as directories,
    ):
        for directory in directories:
            sound = examine(directory.path, directory.expected)
            for number in range(MUTANTS_PER_DIRECTORY):
                counts[one_mutant(sound, random, f"{directory.seed}-{number}")] += 1
    return counts


def one_mutant(sound: Sound, random: Random, name: str) -> str:
    """Damage one file, read the directory, restore the file; what came of it."""
    files = sorted(each for each in sound.path.iterdir() if each.stat().st_size)
    file = random.choice([*files, *(each for each in files if each.name == sound.last)])
    content = file.read_bytes()
    mutant = mutate(content, random)
    outcome = allowed(sound, file.name, content, mutant)
    with replaced(file, mutant):
        actual = state_or_refusal(sound.path)
    if isinstance(actual, LogwrightError):
        assert outcome.may_refuse, f"{name}: {actual}"
        assert isinstance(actual, CorruptLogError | UnsupportedFormatError), name
        assert actual.path is not None, name
        assert sound.path == actual.path.parent, name
        return "refused"
    assert actual in outcome.states, f"{name}: {file.name}"
    return "sound" if actual == sound.state else "prefix"


def state_or_refusal(path: Path) -> State | LogwrightError:
    """What the reader says of a directory."""
    try:
        return our_state(read_metadata(path))
    except LogwrightError as refused:
        return refused


@pytest.mark.oracle
@pytest.mark.timeout(600, method="thread")
def test_a_damaged_metadata_log_has_no_wrong_setting(seed: int) -> None:
    """The sound state, that of a prefix, or a refusal by name, as the table has it."""
    counts = run_mutants(seed, MUTANTS)
    assert len(counts) > 1, counts


@pytest.mark.oracle
@pytest.mark.nightly
@pytest.mark.timeout(7200, method="thread")
def test_many_more_damaged_metadata_logs(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The long form, with the figures."""
    counts = run_mutants(seed, NIGHTLY_MUTANTS)
    assert min(counts["refused"], counts["prefix"], counts["sound"]) > NIGHTLY_MUTANTS // 20, counts
    with capsys.disabled():
        sys.stdout.write(f"\n{sorted(counts.items())}\n")


def run_hostile(seed: int, count: int) -> Counter[str]:
    """Damage that CRCs do not show half of the time; what came of it."""
    counts: Counter[str] = Counter()
    random = Random(seed)
    seeds = range(seed * 1_000_000, seed * 1_000_000 + count // MUTANTS_PER_DIRECTORY)
    with (
        scratch_directory() as scratch,
        closing(write_metadata(shared(), seeds, scratch, torn=False)) as directories,
    ):
        for directory in directories:
            files = sorted(each for each in directory.path.iterdir() if each.stat().st_size)
            for _ in range(MUTANTS_PER_DIRECTORY):
                file = random.choice(files)
                with replaced(file, mutations.mutate(file.read_bytes(), random)):
                    outcome = state_or_refusal(directory.path)
                if isinstance(outcome, LogwrightError):
                    assert outcome.path is not None
                    assert directory.path == outcome.path.parent
                counts[type(outcome).__name__] += 1
    return counts


@pytest.mark.oracle
@pytest.mark.timeout(600, method="thread")
def test_hostile_bytes_are_read_or_refused_by_name(seed: int) -> None:
    """Absurd lengths, counts and offsets under right CRCs: no other exception."""
    counts = run_hostile(seed, MUTANTS)
    assert len(counts) > 1, counts


@pytest.mark.oracle
@pytest.mark.nightly
@pytest.mark.timeout(7200, method="thread")
def test_many_more_hostile_bytes(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The long form, with the figures."""
    counts = run_hostile(seed, NIGHTLY_MUTANTS)
    assert min(counts["dict"], counts["CorruptBatch"]) > NIGHTLY_MUTANTS // 20, counts
    with capsys.disabled():
        sys.stdout.write(f"\n{sorted(counts.items())}\n")
