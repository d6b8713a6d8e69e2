"""The codecs inside the kernels: what they read and write is what `codec` reads and writes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from logwright.format import codec as codecs
from logwright.format import native, native_codec
from logwright.format.codec import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    CodecError,
    compress,
    decompress,
)
from logwright.format.native_codec import ELSEWHERE, NO_ROOM
from tests.unit.format import builders
from tests.unit.format.test_codec import LZ4_LIES, XERIAL_LIES, ZSTD_LIES

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
WITH_LIBRARY = [GZIP, LZ4, ZSTD]
SAME_BYTES = [SNAPPY, LZ4]
LIMIT = 1 << 20
CANARY = 0xA5
AT = 7


def unpack(
    codec: int, payload: bytes, *, room: int, limit: int = LIMIT, cells: object = None
) -> int | bytes:
    """What the kernel makes of a payload in so much room; it writes nothing next to it."""
    data = np.frombuffer(payload + b"\0" * (not payload), dtype=np.uint8)
    memory = np.full(AT + room + 64, CANARY, dtype=np.uint8)
    used = native_codec.libraries() if cells is None else cells
    end = AT + room
    size = native_codec.unpack(data, 0, len(payload), codec, memory[:end], AT, limit, used)
    assert (memory[:AT] == CANARY).all()
    assert (memory[end:] == CANARY).all()
    return memory[AT : AT + size].tobytes() if size >= 0 else int(size)


def pack(codec: int, records: bytes, cells: NDArray[np.int64]) -> bytes:
    """What the kernel makes of records in the room that it asks for, and in no more."""
    data = np.frombuffer(records + b"\0" * (not records), dtype=np.uint8).copy()
    end = AT + int(native_codec.packed_bound(len(records)))
    memory = np.full(end + 64, CANARY, dtype=np.uint8)
    table = native_codec.pack_table()
    size = native_codec.pack(data, len(records), codec, memory[:end], AT, table, cells)
    assert (memory[:AT] == CANARY).all()
    assert (memory[end:] == CANARY).all()
    return memory[AT : AT + size].tobytes()


def test_all_libraries_are_there() -> None:
    """The locked wheels export what the kernels call: else all would be as slow as Python."""
    assert native_codec.libraries()[: native.TAKEN].all()


@pytest.mark.parametrize("codec", CODECS)
def test_kafkas_payloads_are_read(codec: int) -> None:
    """By the kernels themselves."""
    assert builders.PLAIN_RECORD == unpack(codec, builders.PAYLOADS[codec], room=1000)


@pytest.mark.parametrize("codec", CODECS)
@given(pattern=st.binary(max_size=300), times=st.integers(0, 900))
def test_payloads_go_both_ways(codec: int, pattern: bytes, times: int) -> None:
    """What either side writes, the other reads; of lz4 and snappy the bytes are the same."""
    records = pattern * times
    packed = pack(codec, records, native_codec.libraries())
    assert records == decompress(codec, packed, limit=len(records))
    assert records == unpack(codec, compress(codec, records), room=len(records))
    if codec in SAME_BYTES:
        assert packed == compress(codec, records)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("letters", [2, 7, 256])
def test_large_blocks_go_both_ways(codec: int, letters: int) -> None:
    """Several blocks, from what shrinks well to what does not."""
    source = random.Random(letters)
    records = bytes(source.randrange(letters) for _ in range(200_000))
    packed = pack(codec, records, native_codec.libraries())
    assert records == decompress(codec, packed, limit=len(records))
    assert records == unpack(codec, compress(codec, records), room=len(records))
    if codec in SAME_BYTES:
        assert packed == compress(codec, records)


@pytest.mark.parametrize("codec", range(len(codecs.CODECS)))
@pytest.mark.parametrize("size", [0, 1, 60, 1000, 32_767, 32_768, 32_769, 200_000])
def test_no_codec_grows_by_more_than_the_kernels_have_room_for(codec: int, size: int) -> None:
    """Of what cannot be compressed, for every row of the table."""
    records = random.Random(size).randbytes(size)
    assert len(compress(codec, records)) <= int(native_codec.packed_bound(size))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("letters", [1, 256])
def test_too_little_room_is_told_from_too_much_content(codec: int, letters: int) -> None:
    """The room may grow up to the limit; what exceeds that is not for the kernels."""
    source = random.Random(codec)
    records = bytes(source.randrange(letters) for _ in range(100_000))
    payload = compress(codec, records)
    assert records == unpack(codec, payload, room=100_000)
    assert unpack(codec, payload, room=99_999) == NO_ROOM
    assert unpack(codec, payload, room=0) == NO_ROOM
    assert unpack(codec, payload, room=99_999, limit=99_999) == ELSEWHERE
    assert unpack(codec, payload, room=200_000, limit=99_999) == ELSEWHERE


@pytest.mark.parametrize("codec", CODECS)
def test_no_prefix_passes_for_the_whole(codec: int) -> None:
    """But whole chunks of snappy, as in `codec`."""
    payload = compress(codec, random.Random(1).randbytes(300) + bytes(500))
    for end in range(len(payload)):
        if codec != SNAPPY or end != 16:
            assert unpack(codec, payload[:end], room=1000) == ELSEWHERE


def allowed(codec: int, payload: bytes) -> set[int | bytes]:
    """What the kernel may answer: the records or no answer; nothing where `codec` refuses."""
    try:
        return {decompress(codec, payload, limit=LIMIT), ELSEWHERE, NO_ROOM}
    except CodecError:
        return {ELSEWHERE, NO_ROOM}


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_nothing_is_read_that_the_codec_refuses(codec: int, data: st.DataObject) -> None:
    """Damage anywhere: the same records, or none."""
    records = data.draw(st.binary(max_size=60)) * data.draw(st.integers(1, 40))
    payload = bytearray(compress(codec, records))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    unpacked = unpack(codec, bytes(payload), room=5000)
    assert unpacked in allowed(codec, bytes(payload))


@pytest.mark.parametrize("codec", CODECS)
@given(noise=st.binary(max_size=100), kept=st.integers(0, 25))
def test_noise_is_not_read(codec: int, noise: bytes, kept: int) -> None:
    """After a correct beginning, too."""
    payload = builders.PAYLOADS[codec][:kept] + noise
    assert unpack(codec, payload, room=5000) in allowed(codec, payload)


LIES = [(LZ4, lie) for lie in LZ4_LIES.values()]
LIES += [(ZSTD, lie) for lie in ZSTD_LIES.values()]
LIES += [(SNAPPY, lie) for lie in XERIAL_LIES.values()]


@pytest.mark.parametrize(("codec", "payload"), LIES)
def test_lies_are_not_believed(codec: int, payload: bytes) -> None:
    """Sizes that are not there; a size of gigabytes may ask for more room, but finds the limit."""
    assert unpack(codec, payload, room=1 << 17, limit=1 << 17) == ELSEWHERE


@pytest.mark.parametrize("codec", WITH_LIBRARY)
def test_without_its_library_a_codec_is_python(codec: int) -> None:
    """Nothing is read by the kernel, and what it writes is what `codec` writes."""
    cells = native_codec.python_only()
    records = random.Random(codec).randbytes(500) * 3
    payload = compress(codec, records)
    assert unpack(codec, payload, room=5000, cells=cells) == ELSEWHERE
    assert payload == pack(codec, records, cells)
