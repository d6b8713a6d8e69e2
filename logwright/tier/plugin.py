"""Segments as the common plugin lays them out: three objects each.

::

    PREFIX TOPIC-TOPICID/PARTITION/OFFSET-SEGMENTID.log             chunks
                                                   .indexes         all indexes, one after another
                                                   .rsm-manifest    written last

Indexes are never compressed, and encrypted one by one; an empty one is empty in any case.
Source: the plugin's published layout, compared with objects that it wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from logwright.errors import CorruptObject, PolicyError
from logwright.format.names import LOG
from logwright.place.model import Bytes
from logwright.tier.chunks import ChunkedBytes, ChunkedObject, Coding, HeldBytes
from logwright.tier.encryption import OVERHEAD_BYTES, Cipher, PrivateKey, data_key_of
from logwright.tier.manifest import MOST_BYTES, Manifest, Part, parse_manifest
from logwright.tier.model import RemoteSegment, SegmentId, Span, damaged
from logwright.tier.objects import Objects, ObjectStat

INDEXES: Final = ".indexes"
MANIFEST: Final = ".rsm-manifest"
OBJECTS: Final = (LOG, INDEXES, MANIFEST)
"""What is there of a segment, by suffix."""


class PluginSegment(RemoteSegment):
    """A segment of the common plugin."""

    def __init__(
        self,
        bucket: Objects,
        id: SegmentId,  # noqa: A002 -- Kafka's name
        objects: Mapping[str, ObjectStat],
        key: PrivateKey | None,
    ) -> None:
        super().__init__(bucket, id, objects)
        self._key = key
        self._manifest: Manifest | None = None
        self._coding: Coding | None = None

    def key_of(self, suffix: str) -> str:
        """See `RemoteSegment.key_of`."""
        known = next(iter(self.objects.values())).key
        own = suffix if suffix in OBJECTS else INDEXES
        return known[: known.rindex(".")] + own

    @property
    def is_finished(self) -> bool:
        """See `RemoteSegment.is_finished`: the manifest is written last."""
        return MANIFEST in self.objects

    def sizes(self) -> Mapping[str, int]:
        """See `RemoteSegment.sizes`."""
        manifest = self.manifest()
        sizes = {suffix: self._bytes_of(part) for suffix, part in manifest.parts.items()}
        return {LOG: manifest.chunks.original_bytes} | sizes

    def span(self) -> Span:
        """See `RemoteSegment.span`."""
        return self.manifest().span

    def open(self, suffix: str, seen: tuple[int, int, int]) -> Bytes:
        """See `RemoteSegment.open`."""
        if suffix == LOG:
            return ChunkedBytes(self._chunked(), seen)
        return HeldBytes(self._index(suffix), self.key_of(suffix), seen)

    def faults(self) -> Iterator[CorruptObject]:
        """See `RemoteSegment.faults`."""
        try:
            self.part(MANIFEST)
            self._code()
        except CorruptObject as error:
            yield error
            return
        try:
            chunked = self._chunked()
        except CorruptObject as error:
            yield error
        else:
            yield from chunked.faults()
        try:
            for suffix in self.manifest().parts:
                self._index(suffix)
        except CorruptObject as error:
            yield error

    def manifest(self) -> Manifest:
        """Return its manifest. Effects: reads it, once.

        Raises:
            CorruptObject: it is missing or malformed.
            UnsupportedFormatError: it has another version.
        """
        if self._manifest is None:
            key, size, _ = self.part(MANIFEST)
            if size > MOST_BYTES:
                raise damaged(f"a manifest of {size} bytes is not possible", key)
            content = self.bucket.read(key, 0, size)
            self._manifest = parse_manifest(content, key, self.id)
        return self._manifest

    def _chunked(self) -> ChunkedObject:
        return ChunkedObject(self.bucket, self.log, self.manifest().chunks, self._code())

    def _code(self) -> Coding:
        """Return what was done to its chunks.

        Raises:
            CorruptObject: its data key was encrypted with another key.
            PolicyError: it is encrypted, and no key is given.
        """
        if self._coding is None:
            manifest = self.manifest()
            self._coding = Coding(manifest.compressed, self._cipher(manifest))
        return self._coding

    def _cipher(self, manifest: Manifest) -> Cipher | None:
        if manifest.data_key is None:
            return None
        key = self.key_of(MANIFEST)
        if self._key is None:
            raise PolicyError(
                "the segment is encrypted.", path=key, remedy="Give the private key: --tier-key."
            )
        name = "its key"
        try:
            name, encrypted = data_key_of(manifest.data_key)
            return Cipher(self._key.data_key(encrypted), manifest.aad)
        except ValueError as error:
            raise damaged(f"the data key {name[:50]!r} cannot be used: {error}", key) from error

    def _bytes_of(self, part: Part) -> int:
        encrypted = self.manifest().data_key is not None and part.size
        if encrypted and part.size < OVERHEAD_BYTES:
            problem = f"an index of {part.size} bytes is not encrypted"
            raise damaged(problem, self.key_of(MANIFEST))
        return part.size - OVERHEAD_BYTES if encrypted else part.size

    def _index(self, suffix: str) -> bytes:
        """Return an index. Effects: reads it.

        Raises:
            CorruptObject: its object ends before, or it was changed.
        """
        stat, manifest = self.part(INDEXES), self.manifest()
        part = manifest.parts[suffix]
        total = sum(one.size for one in manifest.parts.values())
        if stat.bytes != total:
            raise damaged(
                f"the object has {stat.bytes} bytes, not {total} as its manifest says",
                stat.key,
                min(stat.bytes, total),
            )
        if not part.size:
            return b""
        content = self.bucket.read(stat.key, part.position, part.size)
        cipher = self._code().cipher
        try:
            if len(content) != part.size:
                raise ValueError("the object ends within it")
            return content if cipher is None else cipher.decrypt(content)
        except ValueError as error:
            raise damaged(f"the index {suffix}: {error}", stat.key, part.position) from error
