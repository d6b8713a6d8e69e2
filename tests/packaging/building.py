"""Building what is published, from the files that a clone would have."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def uv(*words: str | Path, cwd: Path, **more: str) -> str:
    """What uv prints; it is among the tools of development.

    Args:
        more: variables of its environment.
    """
    program = Path(sys.executable).with_name("uv")
    tool = program if program.exists() else shutil.which("uv")
    assert tool is not None, "uv is not installed: make setup"
    done = subprocess.run(
        [tool, *words],
        cwd=cwd,
        env=os.environ | more,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def copy_sources(target: Path) -> Path:
    """The repository's own files as they are now, links as links; nothing that was built."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # deleted, and not committed yet
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    return target


def build(kind: str, source: Path, target: Path, **more: str) -> Path:
    """The `wheel` or `sdist` of a source tree or of a source distribution, by the locked tools.

    Args:
        more: variables of the build's environment.
    """
    uv("build", f"--{kind}", "--no-build-isolation", "--python", sys.executable,
       "--out-dir", target, source, cwd=target.parent, **more)  # fmt: skip
    (built,) = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def contents(wheel: Path) -> dict[str, bytes]:
    """Every file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
