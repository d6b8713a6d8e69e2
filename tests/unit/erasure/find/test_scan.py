"""What a scan finds, against plain code: of all that Kafka wrote, and of damaged files."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from logwright.erasure.find.scan import Scanned, Scanner
from logwright.erasure.keys import KeySet
from logwright.erasure.request import Request
from logwright.errors import CorruptLogError, UnsupportedFormatError
from logwright.place.mapped import map_file
from tests.fixtures import CASES, case_dir
from tests.found import SECRET, PlainRecord, plain_records
from tests.log_builder import LogBuilder, SegmentBuilder

HERE = Path("x.log")


def scan(
    content: bytes | NDArray[np.uint8], keys: KeySet | list[bytes], *patterns: bytes
) -> Scanned:
    data = np.frombuffer(content, dtype=np.uint8) if isinstance(content, bytes) else content
    key_set = keys if isinstance(keys, KeySet) else KeySet.of(SECRET, clear=keys)
    return Scanner(patterns).scan(data, HERE, key_set)


def found(scanned: Scanned, keys: list[bytes]) -> list[PlainRecord]:
    positions = scanned.batches["position"]
    return [
        PlainRecord(
            keys[hit["request"]], hit["offset"], positions[hit["row"]], bool(hit["is_tombstone"])
        )
        for hit in scanned.hits
    ]


def stored(keys: list[bytes], *, has_filter: bool = True) -> KeySet:
    requests = [
        Request(
            id=str(number),
            topics="regex:.*",
            hmac=SECRET.hmac(key),
            filter=SECRET.filter(key) if has_filter else None,
            received_at_ms=0,
            deadline_ms=0,
        )
        for number, key in enumerate(keys)
    ]
    return KeySet.of(SECRET, requests=requests)


@pytest.mark.parametrize("name", CASES)
def test_all_that_kafka_wrote(name: str) -> None:
    """Every record with a key, of every segment; each second key is asked for, in three ways."""
    for path in sorted((case_dir(name) / "before").glob("*/*.log")):
        try:
            expected = plain_records(path.read_bytes())
        except (CorruptLogError, UnsupportedFormatError):
            continue  # damaged: see below
        keys = list(dict.fromkeys(one.key for one in expected))[::2]
        wanted = [one for one in expected if one.key in set(keys)]
        data = map_file(path)
        for key_set in (
            KeySet.of(SECRET, clear=keys),
            stored(keys),
            stored(keys, has_filter=False),
        ):
            scanned = scan(data, key_set)
            if not scanned.unread:
                assert wanted == found(scanned, keys)
            else:  # a wrong CRC, which plain code does not check
                bad = {part.position for part in scanned.unread}
                assert [one for one in wanted if one.batch_position not in bad] == (
                    found(scanned, keys)
                )


@pytest.mark.rotates(5)
@pytest.mark.parametrize("codec", range(5))
def test_large_batches_and_many_hits(codec: int) -> None:
    """Room grows with what is found, in one batch and in many; these keys are looked up ahead."""
    segment = SegmentBuilder(0)
    draw = random.Random(codec)
    pairs: list[tuple[bytes, bytes | None]] = [
        (draw.randbytes(40), None if n % 3 else draw.randbytes(20)) for n in range(35_000)
    ]
    segment.batch(0, pairs, codec=codec)
    for number in range(10_000):
        segment.batch(35_000 + number, [pairs[number]], codec=codec)
    keys = [key for key, _ in pairs]
    expected = plain_records(segment.content)
    for key_set in (KeySet.of(SECRET, clear=keys), stored(keys)):
        assert expected == found(scan(segment.content, key_set), keys)


def test_control_records_and_null_keys_are_not_keys() -> None:
    """A marker's key has 4 bytes that a key may have, too; an empty key is a key."""
    segment = SegmentBuilder(0)
    segment.batch(
        0, [(b"\0\0\0\0", "x"), (None, "y"), (b"", "z")], producer_id=1, transactional=True
    )
    segment.marker(3, 1, "abort")
    keys = [b"\0\0\0\0", b"\0\0\0\1", b""]
    scanned = scan(segment.content, keys)
    assert [(b"\0\0\0\0", 0), (b"", 2)] == [(one.key, one.offset) for one in found(scanned, keys)]
    assert [[1, 3, 0]] == scanned.markers.tolist()


def three_batches() -> tuple[list[bytes], bytes]:
    segment = SegmentBuilder(0)
    for number in range(3):
        segment.batch(number, [(f"key-{number}", "value" * 10)])
    return segment.batches, segment.content


@pytest.mark.parametrize("at", [5, 20, 40, 61, 70, 100])
def test_a_damaged_batch_is_named_and_the_others_are_read(at: int) -> None:
    """Wherever a bit is wrong that its CRC covers, or its length is still right."""
    batches, content = three_batches()
    damaged = bytearray(content)
    damaged[len(batches[0]) + at] ^= 4
    keys = [b"key-0", b"key-1", b"key-2"]
    scanned = scan(bytes(damaged), keys)
    expected = [0, 1, 2] if at == 5 else [0, 2]  # the base offset is not in the CRC
    assert expected == [hit["request"] for hit in scanned.hits]
    assert [(len(batches[0]), len(batches[1]))][: 3 - len(expected)] == [
        (part.position, part.bytes) for part in scanned.unread
    ]


def test_a_torn_file_and_zeros() -> None:
    """What is cut off is named; zeros, as of a preallocated file, hold nothing."""
    batches, content = three_batches()
    last = len(content) - len(batches[2])
    for cut in (8, 11, 16, 17, 50, len(batches[2]) - 1):
        scanned = scan(content[: last + cut], [b"key-2"])
        assert [(last, cut)] == [(part.position, part.bytes) for part in scanned.unread]
        assert not len(scanned.hits)
    assert () == scan(content + bytes(1000), [b"key-2"]).unread
    (part,) = scan(content + bytes(1000) + b"x", [b"key-2"]).unread
    assert (len(content), 1001) == (part.position, part.bytes)
    assert () == scan(b"", [b"key-2"]).unread


def test_a_damaged_magic_is_named() -> None:
    """Its CRC says that it is of no old format."""
    batches, content = three_batches()
    old = bytearray(content)
    old[len(batches[0]) + 16] = 1
    scanned = scan(bytes(old), [b"key-0", b"key-2"])
    assert ["the record batch's CRC is wrong."] == [part.problem for part in scanned.unread]
    assert [0, 1] == [hit["request"] for hit in scanned.hits]


def test_random_bytes_are_never_skipped_in_silence() -> None:
    """Each byte is in a batch that was read, in a part that is named, or zero."""
    draw = random.Random(3)
    _, content = three_batches()
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(draw.randrange(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        scanned = scan(bytes(damaged), [b"key-0", b"key-1", b"key-2"])
        named = {
            at for part in scanned.unread for at in range(part.position, part.position + part.bytes)
        }
        for hit in scanned.hits:
            assert int(scanned.batches["position"][hit["row"]]) not in named
        if not named:
            assert 3 == len(scanned.hits)


@pytest.mark.parametrize("codec", range(5))
def test_patterns_in_keys_values_and_headers(codec: int, tmp_path: Path) -> None:
    """A record is reported once, unless its own key is requested; plain code finds the same."""
    from logwright.format.record import RecordHeader  # noqa: PLC0415 -- only here

    header = (RecordHeader(key=b"n", value=None), RecordHeader(key=b"by", value=b"an alice here"))
    segment = LogBuilder(tmp_path, "t-0").segment(0)
    segment.batch(0, [("a", "of alice, alice"), ("alice", "x"), ("b", "none")], codec=codec)
    segment.batch(3, [("c", "x")], headers=header, codec=codec)
    segment.batch(
        4, [("d", None), (None, "lalice"), ("alicf", "alic"), ("my-bob", "e")], codec=codec
    )
    scanned = scan(segment.content, [b"alice"], b"alice", b"bob")
    got = [(hit["offset"], hit["request"], hit["pattern"]) for hit in scanned.hits]
    assert [(0, -1, 0), (1, 0, -1), (3, -1, 0), (5, -1, 0), (7, -1, 1)] == got
