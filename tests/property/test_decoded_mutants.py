"""Whatever a value is made of, it becomes a row or is refused with a reason that has none of its
bytes, in bounded time and memory; and the records around it are decoded.
"""

from __future__ import annotations

import re
import resource
import time
from pathlib import Path
from random import Random

import pytest

from tests.property.encoded_values import FORMATS, PLANTED, Encoded, encoded, mutants
from tests.unit.decode.records import Result, batch, decode

MUTANTS = 400
NIGHTLY_MUTANTS = 10_000
AT_ONCE = 500
SECONDS = 60
GROWTH_BYTES = 512 << 20
PIECES = re.compile(r"[A-Za-z0-9]+")
COUNTS = [
    pytest.param(MUTANTS, id="some"),
    pytest.param(NIGHTLY_MUTANTS, marks=pytest.mark.nightly, id="many"),
]


def mixed(sample: Encoded, changed: list[bytes]) -> Result:
    """A good record before each mutant, and one at the end."""
    pairs = []
    for content in changed:
        pairs += [(sample.key, sample.value), (sample.key, content)]
    return decode(sample.decoder, batch([*pairs, (sample.key, sample.value)], sample.topic))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", FORMATS)
def test_mutants_of_values(name: str, count: int, seed: int, tmp_path: Path) -> None:
    """Each good record is decoded as it is alone, each mutant is a row or refused."""
    random = Random(f"{seed} {name}")
    sample = encoded(name, tmp_path)
    (good,) = decode(sample.decoder, batch([(sample.key, sample.value)], sample.topic)).rows
    begun = time.monotonic()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for start in range(0, count, AT_ONCE):
        changed = list(mutants(sample.value, random, min(AT_ONCE, count - start)))
        result = mixed(sample, changed)
        assert [] == [number for number, _, _ in result.refused if number % 2 == 0]
        numbers = sorted(set(range(2 * len(changed) + 1)) - {one[0] for one in result.refused})
        for number, row in zip(numbers, result.rows, strict=True):
            assert number % 2 or row == good
        refused += len(result.refused)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024
    assert grown < GROWTH_BYTES
    assert time.monotonic() - begun < SECONDS
    assert name == "string" or refused > count // 5
    assert name in {"long", "uuid"} or refused < count


@pytest.mark.parametrize("name", ["consumer-offsets", "transaction-state"])
@pytest.mark.parametrize("count", COUNTS)
def test_mutants_of_keys(name: str, count: int, seed: int, tmp_path: Path) -> None:
    """The keys of internal topics are parsed too."""
    sample = encoded(name, tmp_path)
    pairs = [(key, sample.value) for key in mutants(sample.key, Random(seed), count)]
    result = decode(sample.decoder, batch(pairs, sample.topic))
    assert 0 < len(result.refused) < count


@pytest.mark.parametrize("name", FORMATS)
def test_reasons_have_no_secrets(name: str, seed: int, tmp_path: Path) -> None:
    """No part of the secret that every value has is in a reason, and reasons are few and short."""
    sample = encoded(name, tmp_path)
    result = mixed(sample, list(mutants(sample.value, Random(seed), MUTANTS)))
    reasons = {reason for _, _, reason in result.refused}
    secrets = [piece.lower() for piece in PIECES.findall(PLANTED) if len(piece) > 2]
    for reason in reasons:
        assert len(reason) < 200
        assert reason.isascii()
        assert reason.isprintable()
        assert [] == [piece for piece in secrets if piece in reason.lower()]
    assert len(reasons) < 60
