"""What a request keeps of its key's readings: HMACs and filters."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.erasure.form_match import reading_filters
from logwright.erasure.forms import given_reading, looks_like_json, readings
from logwright.erasure.secret import FILTER_MASK, Secret
from logwright.format.siphash import hash_keys, lane_buffers


class Form(NamedTuple):
    """HMACs and filters of the readings of a key, each sorted."""

    hmacs: tuple[bytes, ...]
    filters: tuple[int, ...]


def form_of(key: bytes, secret: Secret) -> Form:
    """Return what is kept of the readings of a key."""
    return _form(readings(key), secret)


def form_of_given(text: bytes, secret: Secret) -> tuple[bytes, Form]:
    """Return the reading of a decoded key as it is given, and what is kept of it."""
    reading = given_reading(text)
    return reading, _form([reading], secret)


def filters_of(some: Collection[bytes], secret: Secret) -> NDArray[np.uint32]:
    """Return the filters of some readings, uint32[n], ascending."""
    key = np.array([secret.hash_key.low, secret.hash_key.high], dtype=np.uint64)
    lengths = np.fromiter(map(len, some), dtype=np.uint64, count=len(some))
    halves = (np.cumsum(lengths) - lengths, lengths)
    data = np.frombuffer(b"".join(some), dtype=np.uint8)
    hash_keys(data, halves, 0, len(lengths), key, lane_buffers())
    words = [
        filter_
        for reading in some
        if looks_like_json(reading)
        for filter_ in reading_filters(np.frombuffer(reading, dtype=np.uint8), key[0], key[1])
    ]
    filters = [halves[0] & np.uint64(FILTER_MASK), np.array(words, dtype=np.uint64)]
    return np.unique(np.concatenate(filters)).astype(np.uint32)


def _form(some: Collection[bytes], secret: Secret) -> Form:
    return Form(tuple(sorted(map(secret.hmac, some))), tuple(filters_of([*some], secret).tolist()))
