"""Kernels: functions that Numba compiles once and that later processes load without Numba.

A kernel that Python calls is compiled for the types of its arguments, together with all kernels
that it calls, into one object file. The file is kept in a cache on disk. A later process loads it
with llvmlite alone: importing Numba and inferring types would take longer than most cleanings.

1. A call describes its arguments (`describe`): the signature, a tuple of words, and the cells,
   one int64 for each number, address and length.
2. The object file of that signature is loaded from the cache; if it is missing, Numba compiles it
   (`logwright.kernel_compiler`).
3. The compiled function reads its arguments from the cells and writes its result there. It runs
   without the GIL.

The cache is never stale: its directory is named by a digest of all sources that hold kernels and of
all modules that these import, of the versions of Numba and llvmlite, and of the CPU; kernels
outside the package are not kept. It is in ``NUMBA_CACHE_DIR`` if that is set, else in the user's
cache directory. A cache is code: a directory that another user owns or can write is not used. A
file carries a digest of its content, so what a crash or a full disk left of it is compiled again.

IMPORTANT: no kernel allocates; its caller passes all arrays, C-contiguous. A kernel must not write
to an array that is mapped read-only.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import hashlib
import json
import os
import re
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import llvmlite.binding as llvm
import numpy as np

_Function = TypeVar("_Function", bound=Callable[..., object])

Signature = tuple[str, ...]
"""The types of arguments, one word each: ``1:"|u1"`` is an array of one dimension and its type,
``0:[…]`` a record of a structured array, to which the kernel can write;
``i``, ``u``, ``f``, ``b`` and ``n`` are int64, uint64, float64, bool and None; ``(`` … ``)`` is a
tuple, and ``module:Class:fields(`` … ``)`` a named one."""

_HAS_KERNEL: Final = re.compile(rb"^@(?:inline_)?kernel\b", re.MULTILINE)
_IMPORTED: Final = re.compile(rb"^[ \t]*(?:from|import) logwright\.([\w.]+)", re.MULTILINE)
_COMPILER: Final = ("kernel", "kernel_compiler", "intrinsics")
_lock: Final = threading.Lock()
_array_words: dict[tuple[int, int], tuple[Any, str]] = {}
_equal_words: dict[tuple[Any, int], str] = {}


class Kernel:
    """A function that runs compiled. It is called like the function that it was made of, with
    positional arguments.

    Attributes:
        function: the Python source.
        forceinline: LLVM makes it part of every kernel that calls it.
    """

    def __init__(self, function: Callable[..., object], *, forceinline: bool) -> None:
        self.function = function
        self.forceinline = forceinline
        self._entries: dict[Signature, _Entry] = {}

    @property
    def name(self) -> str:
        """Module and name, as ``format.crc.span_crc32c``."""
        return f"{self.function.__module__.removeprefix('logwright.')}.{self.function.__name__}"

    def __call__(self, *arguments: Any) -> Any:
        """Run it. Effects: the arrays that it writes to; the first call may compile.

        Raises:
            TypeError: an argument is of a type that no kernel takes.
        """
        words: list[str] = []
        cells: list[int] = []
        for argument in arguments:
            describe(argument, words, cells)
        signature = tuple(words)
        entry = self._entries.get(signature)
        if entry is None:
            entry = self.load(signature)
        return entry.run(cells)

    def load(self, signature: Signature) -> _Entry:
        """Load the compiled function for these types, or compile it. Effects: the cache."""
        with _lock:
            if signature not in self._entries:
                self._entries[signature] = _Entry(_object_file(self, signature))
            return self._entries[signature]


class Intrinsic:
    """A function of `logwright.intrinsics`, by name: that module imports Numba."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Entry:
    """A compiled function in memory.

    Args:
        content: of an object file in the cache: a line of JSON, then the object code.
    """

    def __init__(self, content: bytes) -> None:
        line, _, code = content.partition(b"\n")
        header = json.loads(line)
        self._result = header["result"]
        self._result_cells = _cells_of(self._result)
        # Each object has an engine of its own: two may hold a function of the same name.
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        address = self._engine.get_function_address(header["symbol"])
        self._call = _ENTRY_TYPE(address)

    def run(self, cells: list[int]) -> Any:
        cells += [0] * (self._result_cells - len(cells))
        buffer = array.array("q", cells)  # refuses what is not an int64
        result = ctypes.c_int64()
        failure = ctypes.c_void_p()
        address, _ = buffer.buffer_info()
        status = self._call(ctypes.byref(result), ctypes.byref(failure), address)
        if status != 0:
            message = f"a kernel failed with status {status}"
            raise RuntimeError(message)
        return _result_of(self._result, iter(buffer))


_ENTRY_TYPE: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
)
"""Numba's calling convention: status of (where the result goes, where a failure goes, argument)."""


def kernel(function: _Function) -> _Function:
    """Make a kernel of a function."""
    return cast("_Function", Kernel(function, forceinline=False))


def inline_kernel(function: _Function) -> _Function:
    """Return a kernel for a small function, inlined into the kernels that call it."""
    return cast("_Function", Kernel(function, forceinline=True))


def intrinsic(name: str) -> Any:
    """Return an instruction for kernels; see `logwright.intrinsics`."""
    return Intrinsic(name)


def describe(argument: Any, words: list[str], cells: list[int]) -> None:
    """Append an argument's types to `words` and its numbers, addresses and lengths to `cells`.

    An integer of Python must be an int64: another one is refused when the kernel runs.

    Raises:
        TypeError: no kernel takes such an argument.
    """
    kind = type(argument)
    if kind is np.ndarray:
        if not argument.flags.c_contiguous:
            message = "a kernel takes only C-contiguous arrays"
            raise TypeError(message)
        words.append(_array_word(argument))
        cells.append(_data_address(argument))
        cells.extend(argument.shape)
    elif kind is int:
        words.append("i")
        cells.append(argument)
    elif isinstance(argument, tuple):
        words.append(_tuple_word(type(argument)))
        for each in argument:
            describe(each, words, cells)
        words.append(")")
    elif isinstance(argument, np.void):
        words.append(_array_word(argument))
        cells.append(_data_address(np.frombuffer(argument, dtype=np.uint8)))
    elif isinstance(argument, bool | np.bool_):
        words.append("b")
        cells.append(int(argument))
    elif isinstance(argument, np.signedinteger):
        words.append("i")
        cells.append(int(argument))
    elif isinstance(argument, np.unsignedinteger):
        words.append("u")
        cells.append(int(argument) - (int(argument) >> 63 << 64))
    elif isinstance(argument, float | np.floating):
        words.append("f")
        cells.append(_PACKED_INT.unpack(_PACKED_FLOAT.pack(argument))[0])
    elif argument is None:
        words.append("n")
    else:
        message = f"a kernel takes no {type(argument).__name__}"
        raise TypeError(message)


_PACKED_INT: Final = struct.Struct("q")
_PACKED_FLOAT: Final = struct.Struct("d")


def _array_word(array: Any) -> str:
    """Return the word of an array's type. NumPy makes a dtype that is equal to another one again
    and again (`np.concatenate`): only the first of them is kept, and found without its hash.
    """
    dtype, ndim = array.dtype, array.ndim
    known = _array_words.get((id(dtype), ndim))
    if known is not None and known[0] is dtype:
        return known[1]
    word = _equal_words.get((dtype, ndim))
    if word is None:
        word = _equal_words[dtype, ndim] = f"{ndim}:{json.dumps(_dtype_fields(dtype))}"
        _array_words[id(dtype), ndim] = (dtype, word)
    return word


def _data_address_in_struct(array: Any) -> int:
    """Return the address of the first element, from the array's C struct: the first field after the
    object head (``PyArrayObject_fields`` of NumPy's C ABI). `ndarray.ctypes` takes ten times as
    long.
    """
    return _int64_at(id(array) + _HEAD_BYTES).value


def _data_address_by_ctypes(array: Any) -> int:
    return int(array.ctypes.data)


_int64_at: Final = ctypes.c_int64.from_address
_HEAD_BYTES: Final = object.__basicsize__
_PROBE: Final = np.zeros(1)
_data_address: Final = (
    _data_address_in_struct
    if _data_address_in_struct(_PROBE) == _data_address_by_ctypes(_PROBE)
    else _data_address_by_ctypes
)


def _dtype_fields(dtype: Any) -> Any:
    """Return a dtype as JSON: its name; or its fields' names, dtypes and offsets, and its size."""
    if dtype.names is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names]
    return [
        dtype.names,
        [_dtype_fields(field[0]) for field in fields],
        [field[1] for field in fields],
        dtype.itemsize,
    ]


@cache
def _tuple_word(kind: type[tuple[Any, ...]]) -> str:
    if kind is tuple:
        return "("
    fields = ",".join(getattr(kind, "_fields", ()))
    return f"{kind.__module__}:{kind.__qualname__}:{fields}("


def _cells_of(result: Any) -> int:
    return sum(map(_cells_of, result)) if isinstance(result, list) else 1


def _result_of(result: Any, cells: Iterator[int]) -> Any:
    """Return the Python value of a result, structured as lists of a `Signature`'s words."""
    if isinstance(result, list):
        return tuple(_result_of(each, cells) for each in result)
    cell = next(cells)
    match result:
        case "i":
            return cell
        case "u":
            return cell & 0xFFFF_FFFF_FFFF_FFFF
        case "b":
            return cell != 0
        case "f":
            return _PACKED_FLOAT.unpack(_PACKED_INT.pack(cell))[0]
        case _:
            return None


@cache
def _target_machine() -> Any:
    with suppress(RuntimeError):  # llvmlite from 0.45 on does it by itself, and refuses
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(jit=True)


def _object_file(kernel: Kernel, signature: Signature) -> bytes:
    """Return the content of the object file of a signature. Effects: compiles it into the cache if
    it is missing; of several processes that need it one compiles.
    """
    path = object_path(kernel.name, signature)
    content = read_object(path)
    if content is not None:
        return content
    from logwright import kernel_compiler  # noqa: PLC0415 -- Numba

    if not kernel.function.__module__.startswith("logwright."):
        return kernel_compiler.compile_object(kernel, signature)
    return kernel_compiler.compile_into_cache(kernel, signature, path)


def read_object(path: Path) -> bytes | None:
    """Return the content of an object file; None if there is none that can be trusted. Effects:
    reads the file.
    """
    try:
        if not is_private(path.parent):
            return None
        digest, _, content = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return content if digest == hashlib.sha256(content).hexdigest().encode() else None


def is_private(directory: Path) -> bool:
    """Return whether only this user, or root, can have written into a directory. Effects: reads its
    mode.

    Raises:
        OSError: it cannot be read.
    """
    status = directory.stat()
    return status.st_uid in {0, os.geteuid()} and not status.st_mode & 0o022


def object_path(name: str, signature: Signature) -> Path:
    """Return the path of the object file of a kernel's signature."""
    digest = hashlib.sha256("\n".join(signature).encode()).hexdigest()[:16]
    return cache_directory() / f"{name}-{digest}.o"


@contextmanager
def file_lock(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold an exclusive lock on a file; yield whether it is held: without `wait` it may not be.
    Effects: creates the file.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)


@cache
def cache_directory() -> Path:
    """Return the directory of the object files of these sources on this CPU. Effects: reads the
    kernels' sources.
    """
    digest = hashlib.sha256()
    for name in ("numba", "llvmlite"):
        digest.update(metadata.version(name).encode())
    digest.update(llvm.get_host_cpu_name().encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    for content in kernel_sources().values():
        digest.update(content)
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(chosen) if chosen else Path("~/.cache/logwright").expanduser()
    return root / f"kernels-{digest.hexdigest()[:16]}"


def kernel_sources() -> dict[str, bytes]:
    """Return the sources that a compiled kernel depends on, by name below ``logwright``: the
    modules that hold kernels, and all that these import, directly or not. Effects: reads the
    package's sources.
    """
    root = Path(__file__).parent
    sources = {
        ".".join(path.relative_to(root).with_suffix("").parts): path.read_bytes()
        for pattern in ("*.py", "*/**/*.py")
        for path in root.glob(pattern)
    }
    wanted = [name for name, content in sources.items() if _HAS_KERNEL.search(content)]
    wanted.extend(_COMPILER)
    reached: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in reached:
            continue
        reached.add(name)
        imported = (match.decode() for match in _IMPORTED.findall(sources[name]))
        wanted += [one for one in imported if one in sources]
    return {name: sources[name] for name in sorted(reached)}
