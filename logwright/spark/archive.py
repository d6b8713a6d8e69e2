"""Spark's classes, kept as the JVM has them in memory: an archive for class data sharing (JEP 350).

A session loads some thousand classes and verifies each, for two seconds of a core. The first
session's JVM writes them down when it ends; those that follow map the file. The JVM itself checks
that the file belongs to it and to these jars, and does without it if not.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
from contextlib import suppress
from pathlib import Path

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""The JVM's warnings about classes that it cannot archive are dropped: on stdout they would break
``--output json``.
"""


def archive_options(java_home: Path, *, cache: Path | None = None) -> str:
    """Return the JVM options that use the archive, or that write it if it is missing. Effects:
    creates the directory.

    Args:
        java_home: of the Java that is to run.
        cache: where archives are kept; if not given, the user's own, next to the compiled kernels.
            Nobody else may write there: an archive is code.

    Returns:
        nothing where it cannot be kept.
    """
    directory = cache or Path("~/.cache/logwright").expanduser()
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"spark-{_digest(java_home)}.jsa"
        if path.exists():
            return f"-XX:SharedArchiveFile={path} {_QUIET}"
        if os.access(directory, os.W_OK):
            return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"
    return ""


def _digest(java_home: Path) -> str:
    """Return a digest of everything that invalidates an archive when it changes."""
    spark = importlib.util.find_spec("pyspark")
    origin = "" if spark is None else spark.origin
    modules = (java_home / "lib" / "modules").stat()
    parts = (
        importlib.metadata.version("pyspark"),
        str(origin),
        str(java_home.resolve()),
        f"{modules.st_size} {modules.st_mtime_ns}",
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
