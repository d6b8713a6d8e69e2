"""The manifest of a segment that the common plugin copied: an object of JSON, written last.

It says how the ``.log`` was cut into chunks, where each index is in the object ``.indexes``, and
which segment it is. Unknown fields are ignored; version 1 is known.
Source: the plugin's published layout, compared with manifests that it wrote.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from logwright.errors import UnsupportedFormatError
from logwright.format.checkpoints import LeaderEpoch
from logwright.format.names import INDEX, SNAPSHOT, TIMEINDEX, TXNINDEX, TopicPartition
from logwright.tier.chunks import ChunkIndex, fixed_index, variable_index
from logwright.tier.model import LEADER_EPOCHS, SegmentId, Span, damaged
from logwright.units import INT32_MAX, INT64_MAX, Offset

MOST_BYTES: Final = 16 * 1024 * 1024
"""A manifest has some 2 KB, and 4 bytes of base64 for each chunk."""
_VERSION: Final = "1"
_INDEXES: Final = {
    "offset": INDEX,
    "timestamp": TIMEINDEX,
    "producer_snapshot": SNAPSHOT,
    "leader_epoch": LEADER_EPOCHS,
    "transaction": TXNINDEX,
}
"""Name in a manifest → suffix, in the order of the object ``.indexes``."""
_Size = Annotated[int, Field(ge=0, le=INT32_MAX)]
_Offset = Annotated[int, Field(ge=0, le=INT64_MAX)]
_Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{22}$")]


class _Model(BaseModel):
    model_config = ConfigDict(  # type: ignore[pydantic-alias]  # made from JSON alone
        frozen=True, strict=True, alias_generator=to_camel, hide_input_in_errors=True
    )


class _Fixed(_Model):
    type: Literal["fixed"]
    original_chunk_size: _Size
    original_file_size: _Size
    transformed_chunk_size: _Size
    final_transformed_chunk_size: _Size

    def index(self) -> ChunkIndex:
        return fixed_index(
            self.original_file_size,
            self.original_chunk_size,
            self.transformed_chunk_size,
            self.final_transformed_chunk_size,
        )


class _Variable(_Model):
    type: Literal["variable"]
    original_chunk_size: _Size
    original_file_size: _Size
    transformed_chunks: str

    def index(self) -> ChunkIndex:
        return variable_index(
            self.original_file_size, self.original_chunk_size, self.transformed_chunks
        )


class Part(_Model):
    """Where an index is in the object ``.indexes``: position and bytes, as they are there."""

    position: _Size
    size: _Size


class _Indexes(_Model):
    offset: Part
    timestamp: Part
    producer_snapshot: Part
    leader_epoch: Part
    transaction: Part | None = None


class _Encryption(_Model):
    data_key: str
    aad: str


class _TopicPartition(_Model):
    topic: str
    partition: _Size


class _TopicIdPartition(_Model):
    topic_id: _Id
    topic_partition: _TopicPartition


class _SegmentId(_Model):
    topic_id_partition: _TopicIdPartition
    id: _Id


class _Metadata(_Model):
    remote_log_segment_id: _SegmentId
    start_offset: _Offset
    end_offset: _Offset
    segment_leader_epochs: Mapping[str, _Offset] = Field(default_factory=dict)


class _Document(_Model):
    version: str
    chunk_index: Annotated[_Fixed | _Variable, Field(discriminator="type")]
    segment_indexes: _Indexes
    compression: bool
    encryption: _Encryption | None = None
    remote_log_segment_metadata: _Metadata


class Manifest(NamedTuple):
    """A manifest.

    Attributes:
        chunks: of the ``.log``.
        parts: of the object ``.indexes``, by suffix, in its order, without gaps.
        compressed: the chunks are; indexes never are.
        data_key: of the segment, as `logwright.tier.encryption.data_key_of` takes it; None: not
            encrypted.
        aad: what was authenticated with each chunk and index.
        span: the segment's offsets.
    """

    chunks: ChunkIndex
    parts: Mapping[str, Part]
    compressed: bool
    data_key: str | None
    aad: bytes
    span: Span


def parse_manifest(content: bytes, key: str, segment: SegmentId) -> Manifest:
    """Parse the manifest of a segment.

    Args:
        key: of the object.
        segment: which one it must be of.

    Raises:
        CorruptObject: it is malformed, or of another segment.
        UnsupportedFormatError: it has another version.
    """
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise damaged("the manifest is not JSON", key) from error
    version = raw.get("version") if isinstance(raw, dict) else None
    if isinstance(version, str) and version != _VERSION:
        raise UnsupportedFormatError("the manifest has an unknown version.", path=key)
    try:
        document = _Document.model_validate(raw)
        manifest = _manifest(document)
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_input=False)[0]["loc"]))
        raise damaged(f"the manifest has no valid field {where[:100]}", key) from error
    except binascii.Error as error:
        raise damaged("the manifest has malformed base64", key) from error
    except ValueError as error:
        raise damaged(f"the manifest is wrong: {error}", key) from error
    if _segment_of(document.remote_log_segment_metadata) != segment:
        raise damaged("the manifest is of another segment than its key", key)
    return manifest


def _manifest(document: _Document) -> Manifest:
    """Return what a document says.

    Raises:
        ValueError: it contradicts itself.
    """
    metadata, encryption = document.remote_log_segment_metadata, document.encryption
    if metadata.end_offset < metadata.start_offset:
        raise ValueError("the segment ends before it starts")
    epochs = sorted((_epoch(one), Offset(at)) for one, at in metadata.segment_leader_epochs.items())
    return Manifest(
        chunks=document.chunk_index.index(),
        parts=_parts(document.segment_indexes),
        compressed=document.compression,
        data_key=None if encryption is None else encryption.data_key,
        aad=b"" if encryption is None else b64decode(encryption.aad, validate=True),
        span=Span(
            start=Offset(metadata.start_offset),
            end=Offset(metadata.end_offset),
            epochs=tuple(LeaderEpoch(epoch=epoch, start_offset=at) for epoch, at in epochs),
        ),
    )


def _epoch(text: str) -> int:
    if not text.isdecimal() or int(text) > INT32_MAX:
        raise ValueError("a leader epoch is not a number")
    return int(text)


def _parts(indexes: _Indexes) -> dict[str, Part]:
    """Return the parts of ``.indexes``, which follow each other.

    Raises:
        ValueError: they do not.
    """
    parts: dict[str, Part] = {}
    end = 0
    for name, suffix in _INDEXES.items():
        part: Part | None = getattr(indexes, name)
        if part is None:
            continue
        if part.position != end:
            raise ValueError("the indexes do not follow each other")
        end += part.size
        parts[suffix] = part
    return parts


def _segment_of(metadata: _Metadata) -> SegmentId:
    named = metadata.remote_log_segment_id
    topic = named.topic_id_partition
    return SegmentId(
        partition=TopicPartition(topic.topic_partition.topic, topic.topic_partition.partition),
        topic_id=topic.topic_id,
        base_offset=metadata.start_offset,
        segment_id=named.id,
    )
