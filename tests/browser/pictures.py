"""Pictures of pages, small enough for a repository: with a palette, as PNG."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOURS = 256
UP = 2
"""The filter of every line that Chromium writes when it is to be fast: differences to above."""

Pixels = npt.NDArray[np.uint8]


def smaller(png: bytes) -> bytes:
    """The same picture in its 256 most frequent colours: pages are flat areas and text."""
    pixels = decoded(png)
    height, width, _ = pixels.shape
    colours, inverse, counts = np.unique(
        pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    palette = colours[np.argsort(-counts)[:COLOURS]]
    nearest = np.array([_nearest(colour, palette) for colour in colours], dtype=np.uint8)
    rows = nearest[inverse.reshape(-1)].reshape(height, width)
    lines = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0),
        b"PLTE": palette.tobytes(),
        b"IDAT": zlib.compress(lines, 9),
        b"IEND": b"",
    }
    return SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks.items())


def decoded(png: bytes) -> Pixels:
    """Pixels, (height, width, 3), of a PNG as Chromium writes it fast."""
    assert png.startswith(SIGNATURE)
    data, header, position = b"", b"", len(SIGNATURE)
    while position < len(png):
        (length,) = struct.unpack_from(">I", png, position)
        kind = png[position + 4 : position + 8]
        content = png[position + 8 : position + 8 + length]
        header = content if kind == b"IHDR" else header
        data += content if kind == b"IDAT" else b""
        position += 12 + length
    width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    channels = {2: 3, 6: 4}[colour]
    assert (bits, interlaced) == (8, 0)
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * channels)
    assert set(lines[1:, 0]) <= {UP}
    return np.cumsum(lines[:, 1:], axis=0, dtype=np.uint8).reshape(height, width, channels)[
        :, :, :3
    ]


def _nearest(colour: Pixels, palette: Pixels) -> int:
    distances = (palette.astype(np.int32) - colour.astype(np.int32)) ** 2
    return int(np.argmin(distances.sum(axis=1)))


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
