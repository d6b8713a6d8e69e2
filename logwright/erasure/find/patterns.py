"""Search for any of a small number of byte patterns in one pass: the automaton of Aho and Corasick
(Communications of the ACM 18, 1975), with a table of the next state for each state and byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.config.key_words import KeysFormat
from logwright.erasure.keys_file import KeysFile, read_keys
from logwright.errors import PolicyError
from logwright.kernel import kernel

MOST_BYTES: Final = 16_384
"""Of all patterns together: each has a KiB of the table."""
SMALLEST_PATTERN: Final = 3
"""Shorter patterns are found everywhere."""
_BYTES: Final = 256
_NOTHING: Final = -1


class Automaton(NamedTuple):
    """The automaton.

    Attributes:
        next: int32[256 x states], the state after a state and a byte.
        found: int32[states], the first pattern that ends in a state, -1 if none does.
    """

    next: NDArray[np.int32]
    found: NDArray[np.int32]


def make_automaton(patterns: Sequence[bytes]) -> Automaton:
    """Return the automaton of these patterns, none of which is empty; with one state if there are
    none.
    """
    goto: list[dict[int, int]] = [{}]
    pattern_of: list[int] = [_NOTHING]
    for number, pattern in enumerate(patterns):
        state = 0
        for byte in pattern:
            if byte not in goto[state]:
                goto[state][byte] = len(goto)
                goto.append({})
                pattern_of.append(_NOTHING)
            state = goto[state][byte]
        if pattern_of[state] == _NOTHING:
            pattern_of[state] = number
    table = np.zeros((len(goto), _BYTES), dtype=np.int32)
    failure = [0] * len(goto)
    waiting = deque([0])
    while waiting:
        state = waiting.popleft()
        if state:
            table[state] = table[failure[state]]
        for byte, following in goto[state].items():
            failure[following] = int(table[state, byte]) if state else 0
            table[state, byte] = following
            if pattern_of[following] == _NOTHING:
                pattern_of[following] = pattern_of[failure[following]]
            waiting.append(following)
    return Automaton(table.reshape(-1), np.array(pattern_of, dtype=np.int32))


def read_patterns(path: Path, form: KeysFormat) -> KeysFile:
    """Return the patterns of a file, one in each line. Effects: reads it.

    Raises:
        PolicyError: a line is empty or malformed, a pattern is short, or there are too many. A
            message never has a line's content.
        UnreadableFile: it cannot be read.
    """
    patterns = read_keys(path, form)
    for number, pattern in enumerate(patterns.keys, 1):
        if len(pattern) < SMALLEST_PATTERN:
            raise PolicyError(
                f"the pattern in line {number} has fewer than {SMALLEST_PATTERN} bytes.",
                path=path,
                remedy="It would be found everywhere: give a longer one.",
            )
    size = sum(map(len, patterns.keys))
    if size > MOST_BYTES:
        raise PolicyError(
            f"the patterns have {size} bytes together, more than {MOST_BYTES}.",
            path=path,
            remedy="Search for them in several runs; keys are given with --keys.",
        )
    return patterns


@kernel
def search_span(automaton: Any, data: Any, start: int, end: int) -> Any:
    """Return the number of the first pattern that is found in data[start : end], -1 if none is."""
    following, pattern_of = automaton.next, automaton.found
    state = np.int64(0)
    for at in range(start, end):
        state = np.int64(following[state * _BYTES + np.int64(data[at])])
        if pattern_of[state] >= 0:
            return np.int64(pattern_of[state])
    return np.int64(_NOTHING)
