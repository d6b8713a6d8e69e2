"""Compare what the versions of a log in a bucket name with the objects that are there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import google_crc32c

from logwright.bucket.commit import Requests, listed, newest, read_manifest
from logwright.bucket.driver import drive
from logwright.bucket.manifest import MANIFESTS, Manifest, version_of
from logwright.bucket.store import Bucket
from logwright.bucket.stored import DATA, StoredFile
from logwright.errors import unreadable
from logwright.place.model import RANGE_BYTES
from logwright.units import ByteCount

_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubbed:
    """What was found.

    Attributes:
        wrong: (key, what is wrong with the object), of the newest version; and of earlier ones, if
            an object is not there.
        unnamed: keys that no version names: a removal takes them once they are old.
        earlier: keys that only earlier versions name.
        unnamed_bytes, earlier_bytes: of their objects.
    """

    wrong: tuple[tuple[str, str], ...]
    unnamed: tuple[str, ...]
    earlier: tuple[str, ...]
    unnamed_bytes: ByteCount
    earlier_bytes: ByteCount


def versions_of() -> Requests[list[Manifest]]:
    """Return all versions of a log, the newest last. Errors: see `read_manifest`."""
    entries = yield from listed(MANIFESTS)
    known = sorted(v for entry in entries if (v := version_of(entry.key)) is not None)
    manifests = []
    for version in known:
        manifest = yield from read_manifest(version)
        manifests += [] if manifest is None else [manifest]
    return manifests


def scrub(directory: Bucket) -> Scrubbed:
    """Look at all objects of a partition, and read those of its newest version. Effects: reads.

    Raises:
        UnreadableFile: the bucket does not permit it, or does not answer.
        Unsettled, CorruptLogError, UnsupportedFormatError: a manifest cannot be read.
    """
    latest = drive(directory, newest())
    versions = drive(directory, versions_of())
    try:
        there = {stored.key: stored.bytes for stored in directory.listing(DATA)}
    except FileNotFoundError:
        there = {}
    except OSError as error:
        raise unreadable(error, f"{directory}/{DATA}") from error
    own = {} if latest is None else _files(latest)
    every = {key: file for version in versions for key, file in _files(version).items()} | own
    wrong = [(key, "the object is not there") for key in sorted(every) if key not in there]
    wrong += [
        (key, f"has {there[key]} bytes, by its manifest {file.bytes}")
        for key, file in sorted(every.items())
        if there.get(key, file.bytes) != file.bytes
    ]
    whole = [file for key, file in sorted(own.items()) if there.get(key) == file.bytes]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        same = pool.map(lambda file: _is_same(directory, file), whole)
        wrong += [
            (file.key, "has not the checksum that its manifest has")
            for file, holds in zip(whole, same, strict=True)
            if not holds
        ]
    unnamed = tuple(sorted(there.keys() - every.keys()))
    earlier = tuple(sorted((there.keys() & every.keys()) - own.keys()))
    return Scrubbed(
        wrong=tuple(wrong),
        unnamed=unnamed,
        earlier=earlier,
        unnamed_bytes=ByteCount(sum(there[key] for key in unnamed)),
        earlier_bytes=ByteCount(sum(there[key] for key in earlier)),
    )


def _files(manifest: Manifest) -> dict[str, StoredFile]:
    return {file.key: file for file, _ in manifest.state.files.values()}


def _is_same(directory: Bucket, file: StoredFile) -> bool:
    """Return whether an object has the bytes that were written. Effects: reads it."""
    crc32c = 0
    for start in range(0, file.bytes, RANGE_BYTES):
        try:
            piece = directory.read(file.key, start, min(start + RANGE_BYTES, file.bytes))
        except OSError as error:
            raise unreadable(error, f"{directory}/{file.key}", start) from error
        crc32c = google_crc32c.extend(crc32c, bytes(piece))
    return crc32c == file.crc32c
