"""Where a person can hide in a log directory or in a bucket: each kind is planted by the tests,
with a record of the person and without, and is a row of ``docs/what-is-searched.md``.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

PERSON: Final = b"the-person"
ID: Final = "0123456789abcdef0123456789abcdef"
N: Final = "00000000000000000007"
_PLAN: Final = "1-0123abcd-0123abcd"
_TIER: Final = "7_AAAAAAAAAAAAAAAAAAAAAA"

Become = Literal["searched", "named"]
"""What is done with it: its content is searched, so a sound one does not stand in the
way; or it is named as not searched, whoever is in it.
"""
Plant = Callable[[Path, bytes], None]
"""Writes a segment, or what has the same texts, at a path; given are the path and the segment."""


def _file(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _gzip(path: Path, content: bytes) -> None:
    _file(path, gzip.compress(content))


def _text(path: Path, content: bytes) -> None:
    _file(path, b"about " + (PERSON if PERSON in content else b"nobody"))


def _json(path: Path, content: bytes) -> None:
    who = PERSON if PERSON in content else b"nobody"
    _file(path, json.dumps({"owner": who.decode()}).encode())


def _property(path: Path, content: bytes) -> None:
    _file(path, b"version=1\ncluster.id=" + (PERSON if PERSON in content else b"nobody"))


def _link(path: Path, content: bytes) -> None:
    _file(path.parents[3] / "linked", content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path.parents[3] / "linked")


def _pipe(path: Path, _: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


@dataclass(frozen=True, slots=True)
class Hidden:
    """A kind of place.

    Attributes:
        kind: its name in the documents.
        path: below the log directory or the URL.
        become: see `Become`.
        plant: writes it.
    """

    kind: str
    path: str
    become: Become = "searched"
    plant: Plant = _file


def _logs(*rows: tuple[str, str]) -> tuple[Hidden, ...]:
    return tuple(Hidden(kind, path.replace("N", N)) for kind, path in rows)


IN_A_DIRECTORY: Final = (
    *_logs(
        ("segment", "v-3/N.log"),
        ("cleaned", "t-0/N.log.cleaned"),
        ("swap", "t-0/N.log.swap"),
        ("retired", "t-0/N.log.deleted"),
        ("temporary", "t-0/N.log.tmp"),
        ("staged", f"t-0/.logwright/staging/{_PLAN}/N.log"),
        ("failed output", f"t-0/.logwright/failed/1.{_PLAN}/N.log"),
        ("cut", "t-0/.logwright/cut/1-0/N.log.from-9"),
        ("work file", "t-0/.logwright/other/N.log"),
        ("deleted log", f"u-1.{ID}-delete/N.log"),
        ("foreign file of a deleted log", f"u-1.{ID}-delete/old.log"),
        ("future log", f"u-1.{ID}-future/N.log"),
        ("stray log", f"u-1.{ID}-stray/N.log"),
        ("named like a segment", "t-0/old.log"),
        ("backup", "t-0/N.log.bak"),
        ("directory of backups", "t-0/backup/N.log"),
        ("copied log", "old-copy/t-0/N.log"),
        ("file of the root", "old.log.bak"),
        ("segment as an index", "t-0/N.index"),
        ("segment as a time index", "t-0/N.timeindex"),
        ("segment as a transaction index", "t-0/N.txnindex"),
        ("segment as a snapshot", "t-0/N.snapshot"),
        ("segment as leader epochs", "t-0/leader-epoch-checkpoint"),
        ("segment as a checkpoint", "recovery-point-offset-checkpoint.tmp"),
        ("old index", "t-0/N.txnindex.deleted"),
        ("metadata snapshot", "t-0/N-0000000001.checkpoint.deleted"),
        ("cached remote index", f"remote-log-index-cache/{_TIER}.txnindex"),
        ("copy of a tier", f"t-0/{_TIER}.log"),
    ),
    Hidden("settings of topics", ".logwright-topics.json", plant=_json),
    Hidden("pauses and quarantine", ".logwright-state.json", plant=_json),
    Hidden("properties", "meta.properties", plant=_property),
    Hidden("set aside by a recovery", ".logwright-damaged-meta.properties-1", plant=_text),
    Hidden("spool of a write", ".logwright-write-0", "named", _text),
    Hidden("text", "t-0/notes.txt", "named", _text),
    Hidden("compressed copy", f"t-0/{N}.log.gz", "named", _gzip),
    Hidden("symbolic link", f"t-0/{N}.log.link", "named", _link),
    Hidden("named pipe", "t-0/pipe", "named", _pipe),
)
"""In a log directory of this machine, next to ``t-0`` with one segment."""

IN_A_BUCKET: Final = (
    *(
        Hidden(kind, path.replace("N", N), "named")
        for kind, path in (
            ("object that no version names", "t-0/data/upload-00-0-0.log"),
            ("object of an unknown name in data/", "t-0/data/x"),
            ("directory in data/", "t-0/data/old/N.log"),
            ("upload without a version", "u-0/data/upload-00-0-0.log"),
            ("part of a job", "t-0/data/clean-00-0-0.job"),
            ("unfinished object", "t-0/data/upload-00-0-0.log#1"),
            ("unknown version", "t-0/manifest/x"),
            ("malformed version", "t-0/manifest/00000000000000000000.bak"),
        )
    ),
    *_logs(
        ("raw segment of a known log", "t-0/00000000000000000000.log"),
        ("raw segment", "w-3/N.log"),
        ("raw cleaned segment", "t-0/N.log.cleaned"),
        ("raw retired segment", "t-0/N.log.deleted"),
        ("raw cut", "t-0/.logwright/cut/1-0/N.log.from-9"),
        ("raw index", "t-0/N.index"),
        ("raw leader epochs", "t-0/leader-epoch-checkpoint"),
        ("raw checkpoint", "cleaner-offset-checkpoint"),
        ("raw record of deleted logs", ".logwright-deleted-logs.jsonl"),
        ("raw deleted log", f"u-1.{ID}-delete/N.log"),
        ("raw future log", f"u-1.{ID}-future/N.log"),
        ("raw stray log", f"u-1.{ID}-stray/N.log"),
        ("backup in a log", "t-0/backup/0.log"),
        ("backup of all", "backup/t-0/N.log"),
        ("copy of the bucket", "copy/t-0/data/upload-00-0-0.log"),
        ("object of the root", "old.log.bak"),
        ("object with the name of a partition", "t-9"),
        ("object with the name of a directory", "t-0/data.log"),
        ("unknown object of the state", "state/x.log"),
        ("copy of the agreement", "format.json.bak"),
        ("left by a clock", "t-0/clock/00.log"),
        ("left by a probe", "probe/00.log"),
        ("unfinished file", "x.log#1"),
        ("name with a line feed", "line\nfeed.log"),
        ("name with spaces", " a b .log"),
        ("name with signs", "100%&?*\\.log"),
        ("name beyond ASCII", "é/ü.log"),
        ("file of a table", "table/_delta_log/N.log"),
    ),
    Hidden("text of somebody", "notes.txt", "named", _text),
    Hidden("compressed object", f"t-0/{N}.log.gz", "named", _gzip),
    Hidden("link in a directory", f"t-0/data/{N}.link", "named", _link),
)
"""Below ``file://``, next to ``t-0`` with one version."""

ON_A_SERVER: Final = (
    Hidden("empty part of a name", "a//x.log", "named"),
    Hidden("empty part of a name in versions", "t-0/manifest//x", "named"),
    Hidden("empty first part of a name", "/x.log", "named"),
    Hidden("dot as a part of a name", "./x.log", "named"),
    Hidden("two dots as a part of a name", "t-0/data/../x.log", "named"),
    Hidden("control character in a name", "t-0/tab\t.log", "named"),
    Hidden("control character in the root", "tab\t.log", "named"),
    Hidden("name with a slash at the end", "full.log/", "named"),
    Hidden("copy on a server", "backup/t-0/0.log"),
)
"""Below ``s3://``, with names that no file system has."""
EVERY: Final = (*IN_A_DIRECTORY, *IN_A_BUCKET, *ON_A_SERVER)
