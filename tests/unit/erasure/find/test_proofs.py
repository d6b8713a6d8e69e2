"""A file is without records by its content, never by its name."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from logwright.erasure.find.proofs import known_texts
from logwright.format.lines import serialize_line
from tests.found import find
from tests.log_builder import LogBuilder, SegmentBuilder

KEY = "alice@example.org"
BATCH = bytes(SegmentBuilder(0).batch(0, [(KEY, "x")]).content)
NAMES = (
    "remote-log-index-cache/00000000000000000000.log",
    "remote-log-index-cache/0_AAAAAAAAAAAAAAAAAAAAAA.index",
    "remote-log-index-cache/sub/x",
    ".logwright-foo",
    ".logwright-state.json",
    "meta.properties",
    "cleaner-offset-checkpoint",
    "t-0/.logwright/x.tmp",
    "t-0/.logwright/lock",
    "t-0/.logwright/erased.json",
    "t-0/.logwright/ingest.batches.ab",
    "t-0/00000000000000000000.index.cleaned",
    "t-0/00000000000000000000.timeindex.swap",
    "t-0/00000000000000000000.txnindex",
    "t-0/00000000000000000009.snapshot",
    "t-0/leader-epoch-checkpoint",
    "t-0/leader-epoch-checkpoint.tmp",
    "t-0/partition.metadata",
    "t-0/00000000000000000000.index.5.deleted",
    "t-0/core.1",
    "backup.tar",
)


def proved(name: str, content: bytes, log_bytes: int | None = None) -> bool:
    return known_texts(name, np.frombuffer(content, dtype=np.uint8), log_bytes) is not None


@pytest.mark.parametrize("name", NAMES)
def test_a_segment_under_any_name_is_searched(tmp_path: Path, name: str) -> None:
    """Its record is found; with a wrong byte it is named as not searched."""
    LogBuilder(tmp_path / "logs").write()
    path = tmp_path / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(BATCH)
    result = find(tmp_path / "logs", [KEY.encode()])
    assert [name] == [one.path for one in result.findings]
    assert "searched" == result.looked[name]
    path.write_bytes(BATCH[:-1] + b"\xff")
    result = find(tmp_path / "logs", [KEY.encode()])
    assert [name] == [one.path for one in result.unsearched]
    assert "not searched" == result.looked[name]


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("00000000000000000000.index", struct.pack(">iiii", 1, 70, 4, 140)),
        ("0_AAAAAAAAAAAAAAAAAAAAAA.index", struct.pack(">iiii", 1, 70, 4, 140)),
        ("00000000000000000000.timeindex", struct.pack(">qiqi", 1, 0, 4, 3)),
        ("00000000000000000000.txnindex", struct.pack(">hqqqq", 0, 1, 2, 3, 3)),
        ("log-start-offset-checkpoint", b"0\n1\nt 0 5\n"),
        ("leader-epoch-checkpoint", b"0\n1\n0 5\n"),
        ("partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"),
        ("meta.properties", b"#\n#Wed Nov 25 2026\nversion=1\nnode.id=1\ncluster.id=c\n"),
        ("quorum-state", b'{"leaderId":1,"data_version":1}'),
        (".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":-1}'),
        (".logwright-topics.json", b'{"version":1,"topics":{}}'),
        ("deletions.jsonl", serialize_line({"at_ms": 1, "files": ["x"]})),
        ("ingest.batches.0a", struct.pack(">qIqI", 0, 9, 3, 9)),
    ],
)
def test_what_proves(name: str, good: bytes) -> None:
    """The form of its name; with bytes added, or of a text, it is none."""
    assert proved(name, good)
    assert proved(name, b"")
    assert proved(name, bytes(1000))
    assert not proved(name, good + b"\x01")
    assert not proved(name, b"alice@example.org, 1 Main Street, 12345")
    assert not proved(name, BATCH)


def test_preallocated_indexes() -> None:
    """Zeros after the entries, as a broker that was killed leaves them."""
    entries = struct.pack(">iiii", 1, 70, 4, 140)
    assert proved("00000000000000000000.index", entries + bytes(80))
    assert not proved("00000000000000000000.index", bytes(80) + entries[::-1])


def test_an_index_points_into_its_segment() -> None:
    """Eight characters of a text are an entry by their form, and point beyond any segment."""
    name = "00000000000000000000.index"
    assert proved(name, struct.pack(">ii", 1, 70), 71)
    assert not proved(name, struct.pack(">ii", 1, 70), 70)
    assert not proved(name, b"alicebob", 1 << 20)
    assert not proved(name, b"alicebob")
    assert not proved("ingest.batches.0a", b"alicebobdora")
    assert not proved("00000000000000000000.timeindex", b"alicebobdora")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".logwright-state.json", json.dumps({"paused": [{"reason": KEY}]}).encode()),
        ("meta.properties", f"cluster.id={KEY}\n".encode()),
        ("t-0/.logwright/deletions.jsonl", serialize_line({"who": KEY})),
    ],
)
def test_texts_are_compared_with_the_keys(tmp_path: Path, name: str, content: bytes) -> None:
    """A person in a ledger is found, by a pattern, too."""
    LogBuilder(tmp_path / "logs").write()
    path = tmp_path / "logs" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    result = find(tmp_path / "logs", [KEY.encode(), b"other"], patterns=(b"alice@",))
    assert {(name, 0), (name, 2)} == {(one.path, one.request) for one in result.findings}
    assert [] == result.unsearched


def test_every_file_is_in_the_account(tmp_path: Path) -> None:
    """Also those of topics that no request is about."""
    for name in ("t-0", "u-0"):
        builder = LogBuilder(tmp_path / "logs", name)
        builder.segment(0).batch(0, [(KEY, "x")])
        builder.write(producers=True, index_interval=1)
    (tmp_path / "logs/link").symlink_to("/")
    result = find(tmp_path / "logs", [KEY.encode()])
    files = {
        str(path.relative_to(tmp_path / "logs"))
        for path in (tmp_path / "logs").rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    assert files == set(result.looked)
    assert {"searched", "no records"} == set(result.looked.values())
    assert ["link"] == [one.path for one in result.unsearched]
    assert ({"t", "u"}, set()) == (result.topics, result.deleted)


def test_damaged_ranges(tmp_path: Path) -> None:
    """What is around a damaged batch is searched; ranges with one problem are one."""
    builder = LogBuilder(tmp_path / "logs")
    segment = builder.segment(0)
    ends = []
    for offset in range(4):
        segment.batch(offset, [(KEY, "x")])
        ends.append(len(segment.content))
    builder.write()
    path = tmp_path / "logs/t-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[ends[1] - 1] ^= 1
    content[ends[2] - 1] ^= 1
    path.write_bytes(content)
    result = find(tmp_path / "logs", [KEY.encode()])
    assert [0, 3] == [one.offset for one in result.findings]
    assert [(ends[0], ends[2] - ends[0])] == [
        (part.position, part.bytes) for part in result.unsearched
    ]
    assert "in part" == result.looked[f"t-0/{0:020d}.log"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t-0/00000000000000000009.index", b"\1nna\0\0\0x"),
        ("t-0/.logwright/ingest.batches", b"\0nna@exampl."),
        ("t-0/00000000000000000009.timeindex", "\0nna@x".encode("utf-16-be")),
        (".logwright-damaged-cleaner-offset-checkpoint-17", b"0\n1\nanna@example.org t 0 5\n\0\0"),
        (
            ".logwright-damaged-t-0-leader-epoch-checkpoint-17",
            "0\nanna@example.org 0 5\n".encode("utf-16-le"),
        ),
    ],
)
def test_numbers_that_are_letters(tmp_path: Path, name: str, content: bytes) -> None:
    """A small file that its numbers prove is compared with the keys as a text, too; a copy of a
    malformed checkpoint by its lines and words.
    """
    LogBuilder(tmp_path / "logs").write()
    path = tmp_path / "logs" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    keys = [b"\1nna\0\0\0x", b"nna@exampl.", b"nna@x", b"anna@example.org"]
    result = find(tmp_path / "logs", keys)
    assert [name] == [one.path for one in result.findings]
    # An index without its log says, too, that records are missing.
    assert [] == [one for one in result.unsearched if one.path != "t-0"]


def test_a_copy_of_a_checkpoint_that_is_no_text(tmp_path: Path) -> None:
    """It may hold anything, so it is named."""
    LogBuilder(tmp_path / "logs").write()
    name = ".logwright-damaged-cleaner-offset-checkpoint-17"
    (tmp_path / "logs" / name).write_bytes(b"0\n1\xff\n")
    assert [name] == [one.path for one in find(tmp_path / "logs", [b"anna"]).unsearched]
