"""Objects of a tier are untrusted: what is damaged is named, and nothing else is believed."""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from logwright.errors import CorruptObject, LogwrightError, UnsupportedFormatError
from logwright.format.names import TopicPartition
from logwright.tier.chunks import LARGEST_CHUNK_BYTES, fixed_index, variable_index
from logwright.tier.layout import find_segments
from logwright.tier.manifest import parse_manifest
from logwright.tier.model import RemoteSegment, SegmentId
from logwright.tier.objects import DirectoryObjects
from logwright.verify.partition import verify_partition
from tests.tiers import TIERS, Tiered, unpacked

PLAIN = TopicPartition("plain", 0)


@pytest.fixture(name="tiered", params=TIERS)
def _tiered(request: pytest.FixtureRequest, tmp_path: Path) -> Tiered:
    return unpacked(request.param, tmp_path)


def first_segment(tiered: Tiered, suffix: str) -> Path:
    """An object of the first segment of ``plain-0``."""
    (listed,) = [path for path in tiered.remote.rglob(f"{0:020d}-*{suffix}") if is_plain(path)]
    return listed


def is_plain(path: Path) -> bool:
    return path.parents[1].name.startswith("plain-") and path.parent.name == "0"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


DAMAGE: dict[str, Callable[[Path], None]] = {
    "cut": cut,
    "flipped": flip,
    "longer": lengthen,
    "missing": Path.unlink,
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("suffix", [".log", ".indexes", ".rsm-manifest"])
def test_a_damaged_object_is_named(tiered: Tiered, suffix: str, how: str) -> None:
    """By its key; other logs are right. Without encryption a changed byte of a chunk is found by
    the CRC of its batch, one of an index by its entries.
    """
    path = first_segment(tiered, suffix)
    DAMAGE[how](path)
    faults = verify_partition(tiered.place, PLAIN)
    key = str(path.relative_to(tiered.remote))
    assert faults, "nothing was found"
    if suffix == ".rsm-manifest" and how in {"flipped", "missing"}:
        assert any(key.removesuffix(suffix) in str(fault.path) for fault in faults), faults
    else:
        assert any(str(fault.path).endswith(key) for fault in faults), faults
    assert [] == verify_partition(tiered.place, TopicPartition("tx", 0))


def test_a_key_of_somebody_else(tmp_path: Path) -> None:
    """Each segment's manifest is named, with the name of the key that is asked for."""
    tiered = unpacked("zstd-encrypted", tmp_path)
    assert tiered.key is not None
    path = first_segment(tiered, ".rsm-manifest")
    manifest = json.loads(path.read_text())
    name, _, encoded = manifest["encryption"]["dataKey"].partition(":")
    content = bytearray(base64.b64decode(encoded))
    content[-1] ^= 1
    manifest["encryption"]["dataKey"] = f"{name}:{base64.b64encode(content).decode()}"
    path.write_text(json.dumps(manifest))
    (fault,) = verify_partition(tiered.place, PLAIN)
    assert str(fault.path).endswith(path.name)
    assert "the data key 'key1' cannot be used: it was encrypted with another key" in fault.problem


def test_ids_with_hyphens(tmp_path: Path) -> None:
    """Kafka's base64 has them: ids are cut off by their length; other objects are of no segment."""
    topic, segment = "-_" * 11, "_-" * 11
    keys = {
        f"a/b-{topic}/3/{7:020d}-{segment}.log": SegmentId(
            TopicPartition("b", 3), topic, 7, segment
        ),
        f"c-d-12-{topic}/7-{segment}.index": SegmentId(
            TopicPartition("c-d", 12), topic, 7, segment
        ),
        f"b-{topic[1:]}/3/{7:020d}-{segment}.log": None,
        f"b-{topic}/3/{7:020d}-{segment}.tmp": None,
        f"b-{topic}/x/{7:020d}-{segment}.log": None,
        f"b-{topic}/3/{1 << 63}-{segment}.log": None,
        "notes": None,
    }
    for key in keys:
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    listed = find_segments(DirectoryObjects(tmp_path), None)
    assert sorted(one for one in keys.values() if one) == [one.id for one in listed.segments]
    assert {key for key, one in keys.items() if one is None} == set(listed.others)


def sizes_text(sizes: list[int], width: int = 4) -> str:
    """Sizes as the plugin writes them."""
    if len(sizes) == 1:
        raw = struct.pack(">ii", 1, sizes[0])
    else:
        base = min(sizes[:-1])
        more = b"".join((one - base).to_bytes(width, "big") for one in sizes[:-1])
        raw = struct.pack(">iiB", len(sizes), base, width) + more + struct.pack(">i", sizes[-1])
    return base64.b64encode(zstandard.compress(raw)).decode()


def test_sizes_of_chunks() -> None:
    """One or many, of each width; the last is written as it is."""
    draw = random.Random(1)
    assert [9] == variable_index(50, 100, sizes_text([9])).ends.tolist()
    for width in (1, 2, 3, 4):
        sizes = [draw.randint(1000, 1000 + min(256**width, 1 << 30) - 1) for _ in range(9)]
        index = variable_index(850, 100, sizes_text(sizes, width))
        assert [sum(sizes[: end + 1]) for end in range(9)] == index.ends.tolist()
        assert (800, 50) == index.original_span(8)
        assert (sum(sizes[:8]), sizes[8]) == index.object_span(8)
    same = variable_index(300, 100, sizes_text([40, 40, 40], width=0))
    assert [40, 80, 120] == same.ends.tolist() == fixed_index(300, 100, 40, 40).ends.tolist()
    assert [40, 80, 87] == fixed_index(250, 100, 40, 7).ends.tolist()


BOMB = base64.b64encode(zstandard.compress(b"\0" * 50_000_000)).decode()


@pytest.mark.parametrize(
    ("original", "chunk", "sizes"),
    [
        (300, 100, sizes_text([40, 40])),
        (300, 100, sizes_text([40, 40, 0])),
        (300, 100, sizes_text([40, 40, 40], width=5)),
        (300, 100, "not base64"),
        (300, 100, base64.b64encode(b"not zstd").decode()),
        (300, 100, BOMB),
        (300, 0, sizes_text([1])),
        (0, 100, sizes_text([1])),
        (300, LARGEST_CHUNK_BYTES + 1, sizes_text([1])),
        (2_147_483_647, 1, sizes_text([1])),
    ],
)
def test_sizes_that_cannot_be(original: int, chunk: int, sizes: str) -> None:
    """No memory is taken by what is declared."""
    with pytest.raises(ValueError):  # noqa: PT011 -- each for a reason of its own
        variable_index(original, chunk, sizes)


def changed(manifest: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A manifest with a value that is another one, of another type, or missing."""
    copy: dict[str, Any] = json.loads(json.dumps(manifest))
    node: Any = copy
    while True:
        name = draw.choice([*node])
        if isinstance(node[name], dict) and node[name] and draw.random() < 0.8:
            node = node[name]
            continue
        if draw.random() < 0.2:
            del node[name]
        else:
            node[name] = draw.choice([None, -1, 0, 1 << 40, "", "x" * 30, True, [], {}, 1.5, BOMB])
        return copy


def test_changed_manifests(tiered: Tiered) -> None:
    """Each is refused with its key, or read as it says; nothing else is raised."""
    path = first_segment(tiered, ".rsm-manifest")
    content = path.read_bytes()
    segments = find_segments(DirectoryObjects(tiered.remote), None).segments
    (segment,) = [one for one in segments if one.id.base_offset == 0 and one.id.partition == PLAIN]
    draw, refused = random.Random(5), 0
    for _ in range(400):
        made = json.dumps(changed(json.loads(content), draw)).encode()
        try:
            parse_manifest(made, "a/key", segment.id)
        except (CorruptObject, UnsupportedFormatError) as error:
            refused += str(error.path) == "a/key"
    assert refused > 200
    for made in (b"", b"[]", b"null", b"{" * 100_000, b"\xff", content[:-1]):
        with pytest.raises(CorruptObject):
            parse_manifest(made, "a/key", segment.id)
    with pytest.raises(CorruptObject, match="of another segment than its key"):
        parse_manifest(content, "a/key", segment.id._replace(base_offset=1))


def all_of(segment: RemoteSegment) -> dict[str, bytes]:
    """All parts of a segment."""
    parts = {}
    for suffix, size in segment.sizes().items():
        with segment.open(suffix, (size, 0, 0)) as file:
            parts[suffix] = file.span(0, size)
            assert len(parts[suffix]) == size
    return parts


def test_damage_is_never_believed(tmp_path: Path) -> None:
    """Of an encrypted tier each random change of an object is an error, or changes nothing that is
    read: a manifest has fields that are not used.
    """
    tiered = unpacked("zstd-encrypted", tmp_path)
    draw = random.Random(9)
    paths = [path for path in sorted(tiered.remote.rglob("*")) if path.is_file() and is_plain(path)]

    def read() -> list[dict[str, bytes]]:
        segments = tiered.place.tier.logs()
        return [all_of(one) for (at, _), own in segments.items() if at == PLAIN for one in own]

    before = read()
    for _ in range(60):
        path = draw.choice(paths)
        content = path.read_bytes()
        at = draw.randrange(len(content))
        path.write_bytes(
            content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :]
        )
        try:
            assert before == read()
        except LogwrightError:
            pass
        else:
            assert path.suffix == ".rsm-manifest"
        path.write_bytes(content)
