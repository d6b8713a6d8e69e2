"""Calls from kernels into the codecs' C libraries, by address, without Python per batch.

The wheels of lz4, zstandard and deflate contain liblz4, libzstd and libdeflate and export their
functions. The kernels get the addresses of the functions and their contexts as cells of an int64
array, so that compiled code can be cached. If a wheel is missing or exports nothing, its cells are
0 and `logwright.format.codec` is used instead.
"""

from __future__ import annotations

import ctypes
import importlib.util
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.kernel import intrinsic

LZ4_DECOMPRESS: Final = 0
LZ4_COMPRESS: Final = 1
ZSTD_DECOMPRESS: Final = 2
ZSTD_COMPRESS: Final = 3
GZIP_DECOMPRESS: Final = 4
GZIP_COMPRESS: Final = 5
ZSTD_DECOMPRESSOR: Final = 6
ZSTD_COMPRESSOR: Final = 7
GZIP_DECOMPRESSOR: Final = 8
GZIP_COMPRESSOR: Final = 9
IN_PYTHON: Final = 10
"""Compresses for codecs without a library; int64 codec, source, size, target, capacity."""
TAKEN: Final = 11
GIVEN: Final = 12
"""Where libdeflate stores the number of bytes read and written."""
ZSTD_RESET: Final = 13
ZSTD_OUT: Final = 14
ZSTD_IN: Final = 17
"""Address, size and position of libzstd's output and input (ZSTD_outBuffer, ZSTD_inBuffer)."""
CELLS: Final = 20

_LZ4: Final = "lz4.block._block"
_ZSTD: Final = "zstandard._cffi"
_DEFLATE: Final = "deflate._deflate"
_FUNCTIONS: Final = {
    LZ4_DECOMPRESS: (_LZ4, "LZ4_decompress_safe"),
    LZ4_COMPRESS: (_LZ4, "LZ4_compress_default"),
    ZSTD_DECOMPRESS: (_ZSTD, "ZSTD_decompressDCtx"),
    ZSTD_COMPRESS: (_ZSTD, "ZSTD_compressStream2"),
    ZSTD_RESET: (_ZSTD, "ZSTD_CCtx_reset"),
    GZIP_DECOMPRESS: (_DEFLATE, "libdeflate_gzip_decompress_ex"),
    GZIP_COMPRESS: (_DEFLATE, "libdeflate_gzip_compress"),
}
_CONTEXTS: Final = {
    ZSTD_DECOMPRESSOR: (_ZSTD, "ZSTD_createDCtx", "ZSTD_freeDCtx"),
    ZSTD_COMPRESSOR: (_ZSTD, "ZSTD_createCCtx", "ZSTD_freeCCtx"),
    GZIP_DECOMPRESSOR: (_DEFLATE, "libdeflate_alloc_decompressor", "libdeflate_free_decompressor"),
    GZIP_COMPRESSOR: (_DEFLATE, "libdeflate_alloc_compressor", "libdeflate_free_compressor"),
}
_ZSTD_PARAMETERS: Final = {100: 3, 200: 0, 201: 0, 202: 0}
"""Level 3; no content size, checksum, dictionary id (ZSTD_cParameter of zstd.h)."""
_DEFLATE_LEVEL: Final = 5
"""About the ratio of zlib's default level, in half the time."""


def _load(module: str) -> ctypes.CDLL | None:
    """Load an extension module as a shared library; None if it is missing."""
    try:
        spec = importlib.util.find_spec(module)
        return ctypes.CDLL(spec.origin) if spec is not None and spec.origin is not None else None
    except (ImportError, OSError):
        return None


def _find(module: str, name: str) -> Any:
    """Return a function of a module's library, or None."""
    return getattr(_load(module), name, None)


def _address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Libraries:
    """The cells of one thread; threads must not share contexts.

    Attributes:
        cells: int64[CELLS].
    """

    def __init__(self) -> None:
        self.cells: NDArray[np.int64] = np.zeros(CELLS, dtype=np.int64)
        for cell, (module, name) in _FUNCTIONS.items():
            function = _find(module, name)
            if function is not None:
                self.cells[cell] = _address_of(function)
        for cell, (module, create, free) in _CONTEXTS.items():
            function, release = _find(module, create), _find(module, free)
            if function is not None and release is not None:
                function.restype = ctypes.c_void_p
                context = ctypes.c_void_p(function(_DEFLATE_LEVEL))
                self.cells[cell] = context.value or 0
                weakref.finalize(self, release, context)
        set_parameter = _find(_ZSTD, "ZSTD_CCtx_setParameter")
        if set_parameter is not None and self.cells[ZSTD_COMPRESSOR]:
            for parameter, value in _ZSTD_PARAMETERS.items():
                compressor = ctypes.c_void_p(int(self.cells[ZSTD_COMPRESSOR]))
                set_parameter(compressor, parameter, value)


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.libraries = Libraries()


_PER_THREAD: Final = _PerThread()


def libraries(in_python: Callable[..., int]) -> NDArray[np.int64]:
    """Return this thread's cells, int64[CELLS].

    Args:
        in_python: the function for `IN_PYTHON`, a ctypes function that is never freed; the same one
            in every call.
    """
    cells = _PER_THREAD.libraries.cells
    if cells[IN_PYTHON] == 0:
        cells[IN_PYTHON] = _address_of(in_python)
    return cells


address = intrinsic("address")
call = intrinsic("call")
