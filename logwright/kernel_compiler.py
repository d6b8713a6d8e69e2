"""Compile a kernel with Numba into an object file that needs neither Numba nor Python.

The compiled function is a wrapper around the kernel: it takes the address of an array of cells,
makes the kernel's arguments of them, and writes the result there (see `logwright.kernel`). LLVM
links all kernels that are called into it; none of them is optimized or has machine code of its own,
which would take a third of the time.

The first cleaning on a machine needs some 20 kernels. While it compiles them one by one, a second
process (``python -m logwright.kernel_compiler``) compiles them from the last to the first; the
package has their list (`AHEAD`). A lock file for each object keeps two processes from compiling the
same one.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import llvmlite
import numba
import numpy as np
from numba import types
from numba.core import codegen
from numba.core.compiler_lock import global_compiler_lock

from logwright import durable, intrinsics
from logwright.kernel import (
    Intrinsic,
    Kernel,
    Signature,
    file_lock,
    is_private,
    object_path,
    read_object,
)

AHEAD: Final = Path(__file__).with_name("kernels.json")
"""Names and signatures of the kernels of a cleaning, in the order in which it calls them: those of
an uncompressed log, then what a compressed one needs besides."""

_OPTIONS: Final = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
_SCALARS: Final = {
    "i": types.int64,
    "u": types.uint64,
    "f": types.float64,
    "b": types.boolean,
    "n": types.none,
}
MIN_CORES: Final = 2
_LLVMLITE: Final = tuple(map(int, llvmlite.__version__.split(".")[:2]))
_second_process: list[int] = []
"""Its process id."""
_dispatchers: dict[int, Any] = {}
"""Numba's object of each kernel that was compiled here, by the kernel's identity."""


def compile_into_cache(kernel: Kernel, signature: Signature, path: Path) -> bytes:
    """Compile a kernel for these types and keep the object file.

    Effects: writes the file, and a lock file next to it; starts a second process at the first
    kernel of a cleaning. Where the cache cannot be written, the object is only returned.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_private(path.parent):
                _start_second_process(kernel, signature)
                stack.enter_context(file_lock(path.with_suffix(".lock")))
        content = read_object(path)
        if content is None:
            content = compile_object(kernel, signature)
            _write(path, content)
        return content


def _write(path: Path, content: bytes) -> None:
    """Keep an object file, if its directory is private and has space. Effects: writes it."""
    with suppress(OSError):
        if not is_private(path.parent):
            return
        digest = hashlib.sha256(content).hexdigest().encode()
        durable.replace(path, digest + b"\n" + content)


def kernels_ahead() -> list[list[tuple[str, Signature]]]:
    """Return the names and signatures of `AHEAD`: of an uncompressed log, and of a compressed one
    as well. Effects: reads the file.
    """
    return [
        [(name, tuple(signature)) for name, signature in group]
        for group in json.loads(AHEAD.read_text())
    ]


def _start_second_process(kernel: Kernel, signature: Signature) -> None:
    """Let another process compile the kernels that will be needed after this one, once, where the
    machine has two cores. Effects: starts a process, which ends when they are compiled.
    """
    if _second_process or len(os.sched_getaffinity(0)) < MIN_CORES or not sys.executable:
        return
    for group, kernels in enumerate(kernels_ahead()):
        if (kernel.name, signature) in kernels:
            # -P: nothing is imported from the directory where the command was started.
            command = [sys.executable, "-P", "-m", __name__, str(group)]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
            # Not waited for: it may continue after this process has ended.
            pid = os.posix_spawn(sys.executable, command, environment, file_actions=nothing)
            _second_process.append(pid)


def compile_ahead(group: int) -> None:
    """Compile the kernels of a group of `AHEAD`, from the last to the first, except those that
    another process has compiled or is compiling. Effects: writes the cache.
    """
    for name, signature in reversed(kernels_ahead()[group]):
        path = object_path(name, signature)
        if read_object(path) is not None:
            continue
        with file_lock(path.with_suffix(".lock"), wait=False) as locked:
            if locked and read_object(path) is None:
                module, _, function = f"logwright.{name}".rpartition(".")
                kernel = getattr(importlib.import_module(module), function)
                _write(path, compile_object(kernel, signature))


def compile_object(kernel: Kernel, signature: Signature) -> bytes:
    """Compile a kernel for these types; return a line of JSON, then the object code."""
    words = iter(signature)
    kinds = tuple(_type(word, words) for word in words)
    with _without_objects():
        called = _dispatcher(kernel)
        called.compile(kinds)
    compiled = called.overloads[kinds]
    # Optimized as a function of its own: within the wrapper LLVM would make other choices. LLVM
    # refuses that for a function that must be inlined, and an old llvmlite does not know how.
    function = compiled.library._final_module.get_function(compiled.fndesc.llvm_func_name)  # noqa: SLF001
    if not kernel.forceinline and _LLVMLITE >= (0, 45):
        function.add_function_attribute("noinline")
    unpack = intrinsics.unpack_arguments(kinds)
    pack = intrinsics.pack_result(compiled.signature.return_type)

    def entry(address: Any) -> Any:
        pack(address, called(*unpack(address)))
        return 0

    wrapper = numba.njit(entry, **_OPTIONS)
    wrapper.compile((types.int64,))
    compiled_entry = wrapper.overloads[(types.int64,)]
    _, _, (code, _) = compiled_entry.library.serialize_using_object_code()
    header = {
        "symbol": compiled_entry.fndesc.llvm_func_name,
        "result": _result_words(compiled.signature.return_type),
    }
    return json.dumps(header).encode() + b"\n" + bytes(code)


def _type(word: str, words: Iterator[str]) -> Any:
    """Return Numba's type of an argument, of which `word` is the first word and `words` has the
    others.
    """
    if word in _SCALARS:
        return _SCALARS[word]
    if not word.endswith("("):
        dimensions, _, dtype_word = word.partition(":")
        kind = numba.from_dtype(_dtype(json.loads(dtype_word)))
        return types.Array(kind, int(dimensions), "C") if int(dimensions) else kind
    members = tuple(_type(each, words) for each in iter(partial(next, words), ")"))
    if word == "(":
        return types.Tuple(members)
    module, name, _ = word.removesuffix("(").split(":")
    return types.NamedTuple(members, getattr(importlib.import_module(module), name))


def _dtype(fields: Any) -> Any:
    """Return the type of elements that `logwright.kernel` wrote as JSON."""
    if isinstance(fields, str):
        return np.dtype(fields)
    names, formats, offsets, item_bytes = fields
    return np.dtype(
        {
            "names": names,
            "formats": [_dtype(each) for each in formats],
            "offsets": offsets,
            "itemsize": item_bytes,
        }
    )


def _result_words(kind: Any) -> Any:
    """Return the structure of a result: lists of the words of a `Signature`."""
    if isinstance(kind, types.BaseTuple):
        return [_result_words(each) for each in kind]
    if isinstance(kind, types.Integer):
        return "i" if kind.signed else "u"
    word = next((word for word, one in _SCALARS.items() if one == kind), None)
    if word is None:
        message = f"a kernel returns no {kind}"
        raise TypeError(message)
    return word


def _dispatcher(kernel: Kernel) -> Any:
    """Return Numba's object of a kernel, whose function sees those of all kernels that it calls."""
    known = _dispatchers.get(id(kernel))
    if known is None:
        function = kernel.function
        scope = dict(function.__globals__)
        copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
        copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
        known = numba.njit(copy, forceinline=kernel.forceinline, **_OPTIONS)
        _dispatchers[id(kernel)] = known
        scope.update({name: _for_numba(scope[name]) for name in _names(function) & set(scope)})
    return known


def _for_numba(value: Any) -> Any:
    """Return what Numba uses for a kernel's global."""
    if isinstance(value, Kernel):
        return _dispatcher(value)
    if isinstance(value, Intrinsic):
        return getattr(intrinsics, value.name)
    if isinstance(value, ModuleType) and value.__name__.startswith("logwright."):
        seen = ModuleType(value.__name__)
        seen.__dict__.update(
            {name: _for_numba(each) for name, each in vars(value).items() if name != "__builtins__"}
        )
        return seen
    return value


def _names(function: Any) -> set[str]:
    return set(function.__code__.co_names)


@contextmanager
def _without_objects() -> Iterator[None]:
    """Let Numba neither optimize a library nor make machine code of it: it is only linked into the
    entry, and all is optimized there. Meanwhile no other thread compiles anything with Numba.
    """
    library: Any = codegen.JITCodeLibrary
    kept = {
        name: getattr(library, name) for name in ("_optimize_final_module", "_finalize_specific")
    }
    with global_compiler_lock:
        for name in kept:
            setattr(library, name, _nothing)
        try:
            yield
        finally:
            for name, method in kept.items():
                setattr(library, name, method)


def _nothing(_library: Any) -> None:
    """Replace a stage of `codegen.CodeLibrary.finalize` by nothing."""


if __name__ == "__main__":
    compile_ahead(int(sys.argv[1]))
