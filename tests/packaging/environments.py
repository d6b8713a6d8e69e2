"""Fresh environments with what a user installs, by each Python that the machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import which
from typing import Literal

from tests.packaging.building import uv

PYTHONS = ("3.11", "3.12", "3.13", "3.14")

Ends = Literal["highest", "lowest-direct"]
"""Which ends of the declared ranges, by uv's names."""


@cache
def find_python(version: str) -> str | None:
    """An interpreter of this version: on PATH, of pyenv, or of uv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    managed = Path("~/.local/share/uv/python").expanduser()
    name = f"python{version}"
    places = [
        *(pyenv / "versions").glob(f"{version}.*/bin/{name}"),
        *managed.glob(f"cpython-{version}.*/bin/{name}"),
    ]
    # A shim of pyenv is on PATH even where its version is not chosen; then it fails.
    for candidate in [which(name), *map(str, sorted(places))]:
        if candidate is not None and _is(candidate, version):
            return candidate
    return None


def _is(python: str, version: str) -> bool:
    program = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment and the directory that its programs run in."""

    root: Path
    caches: Path

    def run(
        self, *words: str | Path, where: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """A program of the environment, away from this checkout.

        Args:
            where: the directory that it runs in, if it is not the one above the environment's.
            more: variables of its environment.
        """
        program, *rest = words
        ours = {"NUMBA_CACHE_DIR": str(self.caches)}
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        return subprocess.run(
            [self.root / "bin" / program, *rest],
            cwd=where or self.root.parent,
            env=kept | ours | more,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What is installed.

    Attributes:
        wheel: built from the sources.
        sources: whose pyproject.toml says the ranges.
        caches: where compiled kernels are kept.
    """

    wheel: Path
    sources: Path
    caches: Path

    def install(self, root: Path, *, version: str, ends: Ends, extra: str = "") -> Environment:
        """Make an environment with the wheel, and see that its packages fit each other.

        Args:
            root: of the environment; does not exist.
            version: of Python.
            ends: of the ranges of what we depend on ourselves; all others are the newest.
            extra: that is installed with it; empty: the base alone.
        """
        uv("venv", "--python", str(find_python(version)), root, cwd=root.parent)
        python = ("--python", root / "bin" / "python")
        pins = root / "pins.txt"
        wanted = ("--extra", extra) if extra else ()
        ranges = self.sources / "pyproject.toml"
        uv("pip", "compile", *python, "--resolution", ends, *wanted, ranges, "-o", pins, cwd=root)
        given = f"logwright[{extra}] @ {self.wheel.as_uri()}" if extra else str(self.wheel)
        uv("pip", "install", *python, "--constraint", pins, given, cwd=root)
        uv("pip", "check", *python, cwd=root)
        return Environment(root=root, caches=self.caches)

    def install_locked(self, root: Path, *, extra: str = "") -> Environment:
        """Make an environment with the wheel by the tests' own Python and the locked versions,
        which are in the cache already.

        Args:
            root: of the environment; does not exist.
            extra: that is installed with it; empty: the base alone.
        """
        uv("venv", "--python", sys.executable, root, cwd=root.parent)
        pins = root / "pins.txt"
        locked = (self.sources / "requirements" / "runtime.txt").read_text()
        names = [line.split()[0] for line in locked.splitlines() if "==" in line]
        pins.write_text("\n".join(names))
        given = f"logwright[{extra}] @ {self.wheel.as_uri()}" if extra else str(self.wheel)
        python = root / "bin" / "python"
        uv("pip", "install", "--python", python, "--constraint", pins, given, cwd=root)
        return Environment(root=root, caches=self.caches)
