"""Kernels are compiled once; later processes load them without Numba."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from logwright.kernel import cache_directory, kernel, kernel_sources
from logwright.kernel_compiler import kernels_ahead

REPOSITORY = Path(__file__).parents[2]
ROW = np.dtype([("first", np.int64), ("flag", np.bool_), ("small", np.int32)])


class Pair(NamedTuple):
    """Two arguments in one."""

    array: Any
    number: int


@kernel
def everything(rows: Any, pair: Any, numbers: Any, flag: bool, nothing: Any) -> Any:  # noqa: ANN401
    """Results of each type, made of arguments of each type but records."""
    rows[1].small = rows[0].small + 1
    unsigned, real = numbers
    if nothing is None:
        pair.array[0, 1] = pair.number
    return (rows[0].first, not flag), unsigned, real * 2, rows[0].flag, None


@kernel
def add_to(row: Any, pair: Any) -> None:  # noqa: ANN401
    """Change two records of structured arrays, one of them in a tuple."""
    row.first += pair.number
    row.flag = pair.array.flag
    pair.array.small -= 1


def test_all_that_a_kernel_is_made_of_counts() -> None:
    """The digest covers kernels, what is inlined into them, and the modules of their constants."""
    used = {"kernel", "kernel_compiler", "intrinsics", "format.batch", "units"}
    used |= {"keys.read", "format.siphash"}
    assert used <= set(kernel_sources())


def test_what_no_kernel_imports_does_not_count() -> None:
    """An edit there compiles nothing."""
    others = {"ingest.commit", "compaction.build", "recovery.load", "cli.main"}
    assert others.isdisjoint(kernel_sources())


def test_arguments_and_results_of_each_type() -> None:
    """Arrays are shared, numbers keep their 64 bits, tuples their structure."""
    rows = np.zeros(2, dtype=ROW)
    rows[0] = (-5, True, 7)
    table = np.zeros((2, 2), dtype=np.int32)
    largest = np.uint64(2**64 - 1)
    result = everything(rows, Pair(table, 3), (largest, 1.25), flag_of(), None)
    assert ((-5, False), 2**64 - 1, 2.5, True, None) == result
    assert (8, 3) == (rows[1]["small"], table[0, 1])


def test_a_record_is_shared() -> None:
    """A kernel writes to the array that the record is from, whatever type of record it is."""
    rows = np.zeros(3, dtype=ROW)
    rows[2] = (0, True, 7)
    add_to(rows[1], Pair(rows.view(np.recarray)[2], -4))
    assert [(0, False, 0), (-4, True, 0), (0, True, 6)] == rows.tolist()


def test_calls_keep_nothing() -> None:
    """NumPy makes a new dtype, equal to the old one, where arrays are joined: a process that calls
    kernels for days must not keep each.
    """
    add_to(np.zeros(1, dtype=ROW)[0], Pair(np.zeros(1, dtype=ROW)[0], -4))
    rows = np.zeros(2, dtype=np.dtype(ROW.descr))
    assert rows.dtype is not ROW
    before = sys.getrefcount(rows.dtype)
    add_to(rows[0], Pair(rows[1], -4))
    after = sys.getrefcount(rows.dtype)
    assert before == after


def flag_of() -> np.bool_:
    """True, as NumPy has it."""
    return np.bool_(True)


@pytest.mark.parametrize("argument", ["text", np.zeros(4)[::2], np.zeros(1, dtype="M8[s]")[0]])
def test_no_other_argument(argument: object) -> None:
    """What a kernel cannot take is refused by its type."""
    with pytest.raises(TypeError, match="a kernel takes"):
        everything(argument, Pair(np.zeros((1, 2)), 0), (np.uint64(0), 0.0), True, None)


def run(code: str, **variables: str) -> str:
    """What a new process prints."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env={**os.environ, **variables},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_a_cleaning_loads_no_numba() -> None:
    """Once its kernels are in the cache."""
    code = (
        "import sys\n"
        "from logwright.spark.warmup import clean_small_logs\n"
        "clean_small_logs()\n"
        "print(sorted({'numba', 'pandas', 'scipy'} & set(sys.modules)))\n"
    )
    run(code)
    assert "[]\n" == run(code)


@pytest.mark.parametrize("arguments", [["--help"], ["clean", "--help"], ["plan", "--help"]])
def test_help_loads_no_array_library(arguments: list[str]) -> None:
    """It is there at once."""
    code = (
        "import sys\n"
        "from logwright.cli.main import main\n"
        f"main({arguments!r}, standalone_mode=False)\n"
        "print(sorted({'llvmlite', 'numba', 'numpy', 'pyarrow', 'pydantic'} & set(sys.modules)))\n"
    )
    assert "[]" == run(code).splitlines()[-1]


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    """The kernel is compiled all the same, for this process."""
    (tmp_path / "file").touch()
    code = (
        "import numpy as np\n"
        "from logwright.format.crc import span_crc32c\n"
        "print(span_crc32c(np.frombuffer(b'123456789', dtype=np.uint8), 0, 9))\n"
    )
    assert f"{0xE3069283}\n" == run(code, NUMBA_CACHE_DIR=str(tmp_path / "file"))


def test_kernels_ahead_are_those_of_a_cleaning() -> None:
    """``python -m tests.kernels_ahead`` writes the list that a second process compiles."""
    code = (
        "import json\n"
        "from tests.kernels_ahead import kernels_of_a_cleaning\n"
        "print(json.dumps(kernels_of_a_cleaning()))\n"
    )
    names = json.loads(run(code).splitlines()[-1])
    assert [{(name, tuple(words)) for name, words in group} for group in names] == [
        set(group) for group in kernels_ahead()
    ]


CRC = (
    "import numpy as np, sys\n"
    "from logwright.format.crc import span_crc32c\n"
    "print(span_crc32c(np.frombuffer(b'123456789', dtype=np.uint8), 0, 9))\n"
    "print('numba' in sys.modules)\n"
)
"""Prints the CRC-32C of the nine digits, and whether a kernel was compiled."""


def crc(cache: Path) -> bool:
    """Run the kernel with this cache; whether it was compiled."""
    value, compiled = run(CRC, NUMBA_CACHE_DIR=str(cache)).split()
    assert 0xE3069283 == int(value)
    return compiled == "True"


@pytest.mark.rotates(3)
@pytest.mark.parametrize("left", [b"", b"{}", b"0" * 64 + b"\n{}\n"])
def test_what_a_crash_left_of_an_object_file_is_compiled_again(tmp_path: Path, left: bytes) -> None:
    """An empty file, a cut one, or one with other content than its digest says."""
    assert crc(tmp_path)
    (path,) = tmp_path.glob("*/format.crc.*.o")
    path.write_bytes(left)
    assert crc(tmp_path)
    assert not crc(tmp_path)


def test_a_cache_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    """It is code: nothing is loaded from it, and nothing is written to it."""
    assert crc(tmp_path)
    (directory,) = tmp_path.iterdir()
    directory.chmod(0o770)
    before = {path: path.stat().st_mtime_ns for path in directory.iterdir()}
    assert crc(tmp_path)
    assert before == {path: path.stat().st_mtime_ns for path in directory.iterdir()}


def test_an_integer_that_is_not_an_int64_is_refused() -> None:
    """It is not cut to its lower 64 bits."""
    numbers = (np.uint64(0), 0.0)
    pair = Pair(np.zeros((2, 2), np.int32), 2**63)
    with pytest.raises(OverflowError):
        everything(np.zeros(2, dtype=ROW), pair, numbers, flag_of(), None)


def test_a_kernel_outside_the_package_is_not_kept() -> None:
    """The digest of the cache does not cover its source."""
    pair = Pair(np.zeros((2, 2), np.int32), 0)
    everything(np.zeros(2, dtype=ROW), pair, (np.uint64(0), 0.0), flag_of(), None)
    assert not list(cache_directory().glob("tests.*"))


def test_the_second_process_imports_nothing_from_the_working_directory(tmp_path: Path) -> None:
    """A log directory may hold anything."""
    (tmp_path / "numba.py").write_text("open('imported', 'w').close()\n")
    code = (
        "import os\n"
        "from logwright import kernel_compiler\n"
        "from logwright.compaction.backward import read_backwards\n"
        "((_, signature),) = [one for one in kernel_compiler.kernels_ahead()[1]\n"
        "                     if one[0] == read_backwards.name]\n"
        "kernel_compiler._start_second_process(read_backwards, signature)\n"
        "_, status = os.waitpid(kernel_compiler._second_process[0], 0)\n"
        "print(status)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-P", "-c", code]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert "0\n" == ended.stdout
    assert not (tmp_path / "imported").exists()
