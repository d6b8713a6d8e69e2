"""The one way in which functions are compiled: without the GIL, cached on disk, the cache never
stale.

Numba notices a change of the file of the function that is called, not of those whose functions or
constants went into it. So the cache lies in a directory named by a digest of all sources that hold
kernels, and of all that these import: another version, another directory. It is kept in
``NUMBA_CACHE_DIR`` if that is set, else in the user's cache directory, which other users cannot
write: a cache is code.

IMPORTANT: no kernel allocates; its caller gives it all arrays. So Numba need not count references
to them (``_nrt=False``), which it otherwise does at every call, atomically, in the middle of the
loop: a third of the time of the map pass. Small functions are inlined by LLVM, not by Numba
(``inline="always"``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import numba

_Function = TypeVar("_Function", bound=Callable[..., object])
_HAS_KERNEL: Final = re.compile(rb"^@(?:inline_)?kernel\b", re.MULTILINE)
_IMPORTED: Final = re.compile(rb"^[ \t]*(?:from|import) logwright\.([\w.]+)", re.MULTILINE)


@cache
def cache_directory() -> Path:
    """Where this version's compiled kernels are kept. Effects: reads the kernels' sources."""
    digest = hashlib.sha256(numba.__version__.encode())
    for content in kernel_sources().values():
        digest.update(content)
    chosen = numba.config.CACHE_DIR
    root = Path(chosen) if chosen else Path("~/.cache/logwright").expanduser()
    return root / f"kernels-{digest.hexdigest()[:16]}"


def kernel_sources() -> dict[str, bytes]:
    """Name below ``logwright`` to content of the modules that hold kernels and of all that these
    import, directly or not, this one among them: whatever a compiled kernel can be made of.
    Effects: reads the package's sources.
    """
    root = Path(__file__).parent
    sources = {
        ".".join(path.relative_to(root).with_suffix("").parts): path.read_bytes()
        for pattern in ("*.py", "*/**/*.py")
        for path in root.glob(pattern)
    }
    wanted = [name for name, content in sources.items() if _HAS_KERNEL.search(content)]
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        found.add(name)
        imported = (match.decode() for match in _IMPORTED.findall(sources[name]))
        wanted += [one for one in imported if one in sources]
    return {name: sources[name] for name in sorted(found)}


def kernel(function: _Function) -> _Function:
    """Compile at the first call with these types; from the cache if it is there."""
    return _compiled(function, forceinline=False)


def inline_kernel(function: _Function) -> _Function:
    """The same, for small functions that are to become part of those which call them."""
    return _compiled(function, forceinline=True)


def _compiled(function: _Function, *, forceinline: bool) -> _Function:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_directory())
    try:
        compiled: _Function = numba.njit(
            function,
            cache=True,
            nogil=True,
            error_model="numpy",
            forceinline=forceinline,
            _nrt=False,
        )
    finally:
        numba.config.CACHE_DIR = before
    return compiled
