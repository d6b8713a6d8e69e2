"""Deletion vectors of Delta Lake: which rows of a data file are deleted.

Delta's protocol, "Deletion Vectors" and "Deletion Vector Format": a file ``deletion_vector_<uuid>
.bin`` has a version byte, then for each vector its size (int32, big endian), the magic number and a
64-bit Roaring bitmap in the portable format, and the CRC-32 of these (big endian). A commit names a
vector by a descriptor. Reading is the library's.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from base64 import b85decode, b85encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from logwright.tables.files import TableFiles

NAME: Final = "deletion_vector_{}.bin"
FEATURE: Final = "deletionVectors"

_VERSION: Final = b"\x01"
_MAGIC: Final = 1681511377
_RELATIVE: Final = "u"
"""Storage type of a file in the table's directory, named by a UUID in base 85."""
_ENCODED: Final = 20
"""Characters of an encoded UUID; what is before them is a prefix of the file's directory."""
_Z85: Final = (
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)
_B85: Final = (
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
)
_TO_Z85: Final = bytes.maketrans(_B85, _Z85)
_FROM_Z85: Final = bytes.maketrans(_Z85, _B85)


class Descriptor(NamedTuple):
    """Where a deletion vector is.

    Attributes:
        file: UUID of its file.
        offset: of its size in the file, in bytes; size: of its bitmap, in bytes.
        rows: number of deleted rows.
    """

    file: uuid.UUID
    offset: int
    size: int
    rows: int

    @property
    def action(self) -> dict[str, Any]:
        """The descriptor in a commit."""
        return {
            "storageType": _RELATIVE,
            "pathOrInlineDv": b85encode(self.file.bytes).translate(_TO_Z85).decode(),
            "offset": self.offset,
            "sizeInBytes": self.size,
            "cardinality": self.rows,
        }


def vector_file(action: Mapping[str, Any]) -> str | None:
    """Return the name of a deletion vector's file in the table's directory, None if it has none
    there.
    """
    encoded = str(action.get("pathOrInlineDv", ""))
    if action.get("storageType") != _RELATIVE or len(encoded) < _ENCODED:
        return None
    try:
        name = b85decode(encoded[-_ENCODED:].encode().translate(_FROM_Z85))
        return f"{encoded[:-_ENCODED]}/{NAME.format(uuid.UUID(bytes=name))}".lstrip("/")
    except ValueError:
        return None


def read_descriptor(action: Mapping[str, Any]) -> Descriptor:
    """Return a descriptor of `Descriptor.action`.

    Raises:
        KeyError, TypeError, ValueError: it is not one.
    """
    encoded = str(action["pathOrInlineDv"])
    if action["storageType"] != _RELATIVE or len(encoded) != _ENCODED:
        raise ValueError("not a deletion vector of this table")
    name = uuid.UUID(bytes=b85decode(encoded.encode().translate(_FROM_Z85)))
    offset, size, rows = (int(action[key]) for key in ("offset", "sizeInBytes", "cardinality"))
    return Descriptor(name, offset, size, rows)


def write_vectors(files: TableFiles, vectors: Sequence[NDArray[np.int64]]) -> list[Descriptor]:
    """Write the deletion vectors of a commit to one file, and return their descriptors. Effects:
    makes the file, durably, if there are any.

    Args:
        files: of the table.
        vectors: deleted rows, at least one each.
    """
    if not vectors:
        return []
    name = uuid.uuid4()
    descriptors = []
    with files.output(NAME.format(name)) as file:
        file.write(_VERSION)
        end = len(_VERSION)
        for rows in vectors:
            content = struct.pack("<i", _MAGIC) + BitMap64(rows.tolist()).serialize()
            file.write(struct.pack(">i", len(content)) + content)
            file.write(struct.pack(">I", zlib.crc32(content)))
            descriptors.append(Descriptor(name, end, len(content), len(rows)))
            end += 4 + len(content) + 4
    return descriptors
