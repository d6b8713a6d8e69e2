"""Codecs: Kafka's framings byte for byte, and every lie and bomb refused under the limit."""

from __future__ import annotations

import gzip
import os
import random
import tracemalloc
import zlib
from typing import get_args

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from logwright.errors import PolicyError
from logwright.format.batch import parse_batch, walk_batches
from logwright.format.codec import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    CodecName,
    compress,
    decompress,
)
from logwright.format.limits import ENVIRONMENT, AboveLimit, CodecError, decompression_limit
from logwright.format.lz4frame import xxhash32
from tests.fixtures import CASES, case_dir
from tests.unit.format import builders
from tests.unit.format.builders import from_hex

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
COMPRESSING = [GZIP, SNAPPY, LZ4, ZSTD]
LIMIT = 1 << 20
XERIAL = from_hex("82534e4150505900 00000001 00000001")
LZ4_HEADER = from_hex("04224d18 60 40 82")
ZSTD_HEADER = from_hex("28b52ffd 00 58")


def test_names_are_in_the_order_of_the_ids() -> None:
    """CompressionType's ids."""
    assert CODEC_NAMES == ("none", "gzip", "snappy", "lz4", "zstd")
    assert CODEC_NAMES == get_args(CodecName)
    assert CODECS == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("codec", COMPRESSING)
def test_kafkas_payloads_are_read(codec: int) -> None:
    """The same record under each codec, written by Kafka 4.3.0."""
    payload = builders.PAYLOADS[codec]
    assert decompress(codec, payload, limit=LIMIT) == builders.PLAIN_RECORD


@pytest.mark.parametrize("codec", COMPRESSING)
def test_ours_are_kafkas_bytes(codec: int) -> None:
    """For one small record even the compressed bytes are equal."""
    assert builders.PAYLOADS[codec] == compress(codec, builders.PLAIN_RECORD)


@pytest.mark.parametrize("codec", CODECS)
@given(st.binary(max_size=300), st.integers(0, 900))
def test_payloads_round_trip(codec: int, pattern: bytes, times: int) -> None:
    """Below and above a block of every framing, compressible and not."""
    records = pattern * times
    unpacked = decompress(
        codec, memoryview(compress(codec, memoryview(records))), limit=len(records)
    )
    assert records == unpacked


@pytest.mark.parametrize("codec", CODECS)
def test_large_noise_round_trips(codec: int) -> None:
    """Several blocks that do not shrink."""
    records = random.Random(codec).randbytes(300_000)
    assert records == decompress(codec, compress(codec, records), limit=len(records))


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec: int) -> None:
    """What has the limit's size passes, one byte more does not."""
    records = bytes(200_000)
    payload = compress(codec, records)
    assert records == decompress(codec, payload, limit=200_000)
    with pytest.raises(CodecError):
        decompress(codec, payload, limit=199_999)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_payload_that_is_cut_off_anywhere_is_refused(codec: int) -> None:
    """No prefix passes for the whole (snappy: but whole chunks are all that it promises)."""
    payload = compress(codec, os.urandom(500) + bytes(500))
    for end in range(len(payload)):
        if codec == SNAPPY and end in (0, 16):
            continue
        with pytest.raises(CodecError):
            decompress(codec, payload[:end], limit=LIMIT)


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("garbage", [b"\x00", b"\x01", b"garbage after the end"])
def test_trailing_garbage_is_refused(codec: int, garbage: bytes) -> None:
    """Nothing may follow a payload."""
    with pytest.raises(CodecError):
        decompress(codec, builders.PAYLOADS[codec] + garbage, limit=LIMIT)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codecs_are_refused(codec: int) -> None:
    """Neither way."""
    with pytest.raises(CodecError, match="unknown"):
        decompress(codec, b"", limit=LIMIT)
    with pytest.raises(CodecError, match="unknown"):
        compress(codec, b"")


def size_or_refusal(codec: int, payload: bytes, limit: int) -> int:
    """Bytes found, 0 where the payload is refused; any other exception goes through."""
    try:
        return len(decompress(codec, payload, limit=limit))
    except CodecError:
        return 0


@pytest.mark.parametrize("codec", COMPRESSING)
@given(payload=st.binary(max_size=200))
def test_noise_is_refused(codec: int, payload: bytes) -> None:
    """Whatever the bytes, only a CodecError comes out."""
    for content in (payload, builders.PAYLOADS[codec][:9] + payload):
        assert size_or_refusal(codec, content, 1000) <= 1000


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.data())
def test_a_damaged_payload_gives_bytes_or_a_codec_error(codec: int, data: st.DataObject) -> None:
    """As above, near to what is right."""
    payload = bytearray(compress(codec, b"abc" * 400))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    assert size_or_refusal(codec, bytes(payload), 5000) <= 5000


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_allocates_no_more_than_the_limit(codec: int) -> None:
    """64 MiB of zeros under a limit of 1 MiB; the Python heap stays near the limit."""
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(AboveLimit):
            decompress(codec, bomb, limit=LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 4 * LIMIT
    finally:
        tracemalloc.stop()


def test_the_limit_is_sixteen_times_the_batch_and_at_least_64_mib(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """max(64 MiB, 16 x batch), or what the environment gives, if that is more."""
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert decompression_limit(1) == 64 << 20
    assert decompression_limit(5 << 20) == 80 << 20
    monkeypatch.setenv(ENVIRONMENT, str(70 << 20))
    assert decompression_limit(1) == 70 << 20
    assert decompression_limit(5 << 20) == 80 << 20


@pytest.mark.parametrize("text", ["64MiB", "-1", "1e9", "\u0661"])
def test_a_limit_is_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Without a unit, in ASCII."""
    monkeypatch.setenv(ENVIRONMENT, text)
    with pytest.raises(PolicyError, match=ENVIRONMENT):
        decompression_limit(1)


def test_gzip_members_follow_one_another() -> None:
    """As the JDK's GZIPInputStream reads them; the limit counts them all."""
    payload = gzip.compress(b"one") + gzip.compress(b"two")
    assert decompress(GZIP, payload, limit=6) == b"onetwo"
    with pytest.raises(CodecError, match="limit"):
        decompress(GZIP, payload, limit=5)


def test_a_gzip_checksum_is_verified() -> None:
    """RFC 1952's CRC32 in the trailer."""
    payload = bytearray(builders.PAYLOADS[GZIP])
    payload[-8] ^= 1
    with pytest.raises(CodecError, match="gzip"):
        decompress(GZIP, bytes(payload), limit=LIMIT)


def test_a_zlib_stream_is_no_gzip() -> None:
    """Only the gzip framing is read."""
    with pytest.raises(CodecError, match="gzip"):
        decompress(GZIP, zlib.compress(b"x"), limit=LIMIT)


def raw_snappy(content: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(content))


def chunk(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big", signed=True) + content


def test_xerial_streams_may_follow_one_another() -> None:
    """snappy-java's reader skips a header in between; chunks may have any number and size."""
    payload = XERIAL + chunk(raw_snappy(b"a")) + XERIAL + chunk(raw_snappy(b"b" * 99_999))
    assert decompress(SNAPPY, payload, limit=LIMIT) == b"a" + b"b" * 99_999


def test_raw_snappy_without_a_header_is_read() -> None:
    """snappy-java's fallback."""
    assert decompress(SNAPPY, raw_snappy(b"abc" * 50), limit=LIMIT) == b"abc" * 50


XERIAL_LIES = {
    "negative chunk": XERIAL + (-5).to_bytes(4, "big", signed=True) + bytes(8),
    "empty chunk": XERIAL + bytes(4),
    "huge chunk": XERIAL + (2**31 - 1).to_bytes(4, "big") + bytes(8),
    "chunk one byte too long": XERIAL
    + (len(raw_snappy(b"a")) + 1).to_bytes(4, "big")
    + raw_snappy(b"a"),
    "chunk of a huge block": XERIAL + chunk(b"\xff\xff\xff\xff\x0f" + raw_snappy(b"a")[1:]),
    "block that claims more": XERIAL + chunk(b"\x05" + raw_snappy(b"aaa")[1:]),
    "block that claims less": XERIAL + chunk(b"\x02" + raw_snappy(b"aaa")[1:]),
    "block length of six bytes": XERIAL + chunk(b"\x80" * 6),
    "version 0": XERIAL[:8] + bytes(8) + chunk(raw_snappy(b"a")),
    "header cut off": XERIAL[:12],
}


@pytest.mark.parametrize("payload", XERIAL_LIES.values(), ids=XERIAL_LIES.keys())
def test_xerial_lies_are_refused(payload: bytes) -> None:
    """Chunk and block lengths are compared with what is there."""
    with pytest.raises(CodecError, match="snappy"):
        decompress(SNAPPY, payload, limit=1 << 40)


def test_a_snappy_block_may_not_claim_more_than_its_bytes_can_hold() -> None:
    """Refused before the library, which allocates what a block claims."""
    with pytest.raises(CodecError, match="cannot hold 4294967295"):
        decompress(SNAPPY, XERIAL_LIES["chunk of a huge block"], limit=1 << 40)


def uint32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def lz4_header(flags: int, descriptor: int, rest: bytes = b"") -> bytes:
    fields = bytes((flags, descriptor)) + rest
    return from_hex("04224d18") + fields + bytes((xxhash32(fields) >> 8 & 0xFF,))


LZ4_LIES = {
    "stored block larger than allowed": LZ4_HEADER + uint32(65537 | 1 << 31) + bytes(65537),
    "block larger than allowed": LZ4_HEADER + uint32(65537) + bytes(65537),
    "huge block": LZ4_HEADER + uint32(0x7FFFFFFF) + bytes(20),
    "block after the end": LZ4_HEADER + uint32(9 | 1 << 31) + b"abc",
    "no end mark": LZ4_HEADER + uint32(1 | 1 << 31) + b"a",
    "noise block": LZ4_HEADER + uint32(5) + b"\xff\xff\xff\xff\xff" + bytes(4),
    "wrong header checksum": from_hex("04224d18 60 40 83 00000000"),
    "linked blocks": lz4_header(0x40, 0x40) + bytes(4),
    "version 0": lz4_header(0x20, 0x40) + bytes(4),
    "reserved flag": lz4_header(0x62, 0x40) + bytes(4),
    "reserved descriptor bit": lz4_header(0x60, 0xC0) + bytes(4),
    "block code 3": lz4_header(0x60, 0x30) + bytes(4),
    "wrong block checksum": lz4_header(0x70, 0x40) + uint32(1 | 1 << 31) + b"a" + bytes(8),
    "wrong magic": from_hex("04224d19 60 40 82 00000000"),
    "content checksum cut off": lz4_header(0x64, 0x40) + bytes(4),
}


@pytest.mark.parametrize("payload", LZ4_LIES.values(), ids=LZ4_LIES.keys())
def test_lz4_lies_are_refused(payload: bytes) -> None:
    """What Kafka's Lz4BlockInputStream refuses, and nothing is read after the payload."""
    with pytest.raises(CodecError, match="lz4"):
        decompress(LZ4, payload, limit=LIMIT)


@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("block_checksum", [False, True])
@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_lz4_frames_of_other_writers_are_read(
    content_checksum: bool, block_checksum: bool, store_size: bool, block_size: int
) -> None:
    """Any frame of independent blocks, with checksums and sizes of any kind."""
    records = random.Random(1).randbytes(1000) * 150
    payload = lz4.frame.compress(
        records,
        block_size=block_size,
        block_linked=False,
        content_checksum=content_checksum,
        block_checksum=block_checksum,
        store_size=store_size,
    )
    assert records == decompress(LZ4, payload, limit=LIMIT)


def test_a_content_checksum_is_read_over() -> None:
    """Lz4BlockInputStream does not verify it."""
    payload = lz4.frame.compress(b"abc", block_linked=False, content_checksum=True)
    assert decompress(LZ4, payload[:-4] + bytes(4), limit=LIMIT) == b"abc"


def test_lz4_as_the_library_reads_it() -> None:
    """Our frame is an ordinary one."""
    records = bytes(range(256)) * 1000
    assert records == lz4.frame.decompress(compress(LZ4, records))


@pytest.mark.parametrize(
    ("content", "digest"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)],
)
def test_xxhash32_vectors(content: bytes, digest: int) -> None:
    """Reference values of seed 0."""
    assert digest == xxhash32(content)


def zstd_block(kind: int, size: int, *, last: bool = True) -> bytes:
    return (size << 3 | kind << 1 | last).to_bytes(3, "little")


ZSTD_LIES = {
    "huge window": from_hex("28b52ffd 00 ff") + zstd_block(0, 0),
    "huge content size": from_hex("28b52ffd e0") + (2**62).to_bytes(8, "little") + zstd_block(0, 0),
    "content size that is not there": from_hex("28b52ffd a0")
    + uint32(1000)
    + zstd_block(0, 1)
    + b"a",
    "dictionary": from_hex("28b52ffd 01 58 07") + zstd_block(0, 0),
    "reserved flag": from_hex("28b52ffd 08 58") + zstd_block(0, 0),
    "reserved block": ZSTD_HEADER + zstd_block(3, 0),
    "block larger than allowed": ZSTD_HEADER + zstd_block(1, 2**21 - 1) + b"a",
    "block after the end": ZSTD_HEADER + zstd_block(0, 100) + b"a",
    "no last block": ZSTD_HEADER + zstd_block(0, 1, last=False) + b"a",
    "checksum cut off": from_hex("28b52ffd 04 58") + zstd_block(0, 1) + b"a",
    "wrong checksum": from_hex("28b52ffd 04 58") + zstd_block(0, 1) + b"a" + bytes(4),
    "noise block": ZSTD_HEADER + zstd_block(2, 5) + b"\xff" * 5,
    "wrong magic": from_hex("28b52ffe 00 58") + zstd_block(0, 0),
    "skippable frame after the end": from_hex("502a4d18") + uint32(100),
}


@pytest.mark.parametrize("payload", ZSTD_LIES.values(), ids=ZSTD_LIES.keys())
def test_zstd_lies_are_refused(payload: bytes) -> None:
    """Windows, sizes and blocks are checked before anything is allocated."""
    with pytest.raises(CodecError, match="zstd"):
        decompress(ZSTD, payload, limit=LIMIT)


def test_a_zstd_frame_may_not_claim_more_than_its_blocks_can_hold() -> None:
    """Refused before the library, which allocates what a frame claims."""
    with pytest.raises(CodecError, match="cannot contain 1000 bytes"):
        decompress(ZSTD, ZSTD_LIES["content size that is not there"], limit=1 << 40)


@pytest.mark.parametrize("level", [1, 3, 19, 22])
def test_zstd_frames_of_other_writers_are_read(level: int) -> None:
    """With content size and checksum, one after the other, skippable ones between."""
    records = random.Random(1).randbytes(1000) * 300
    frame = zstandard.ZstdCompressor(level=level, write_checksum=True).compress(records)
    skippable = from_hex("5f2a4d18") + uint32(3) + b"any"
    unpacked = decompress(ZSTD, frame + skippable + frame, limit=LIMIT)
    assert records + records == unpacked


def test_a_zstd_frame_that_might_be_too_large_is_streamed() -> None:
    """Its bound (a block may hold 128 KiB) exceeds the limit, its content does not."""
    records = b"ab" * 500
    assert records == decompress(ZSTD, compress(ZSTD, records), limit=1000)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("basic-", "real-"))])
def test_fixture_payloads_are_written_as_kafka_wrote_them(name: str) -> None:
    """Re-encoding what Kafka compressed gives its bytes for lz4 and gzip, its records for all."""
    for log in sorted(case_dir(name).glob("*/*/*.log")):
        content = log.read_bytes()
        for span in walk_batches(content):
            whole = content[span.position : span.position + span.bytes]
            codec = parse_batch(whole).codec
            if len(whole) > 61:
                records = decompress(codec, whole[61:], limit=LIMIT)
                again = compress(codec, records)
                assert records == decompress(codec, again, limit=LIMIT)
                if codec in (LZ4, GZIP, NONE):
                    assert whole[61:] == again
