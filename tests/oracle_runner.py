"""Runs real Apache Kafka code: builds tests/oracle once for each Kafka and calls its commands.

Which Kafka: what a caller names, else that of `using`, else that of `pytest --kafka`. What it says
and writes is what ours is compared with, so a missing JDK or Maven is a failure with one sentence,
never a skipped test. A build is repeated only when a source of the project changed; a file lock
lets several test processes share one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parent / "oracle"
TARGETS = {"4.3": "target", "4.4": "target-4.4"}
"""Of each Kafka, its build's directory in PROJECT, as pom.xml says."""

KAFKAS = tuple(TARGETS)
OLDEST, NEWEST = KAFKAS[0], KAFKAS[-1]
BUILD_SECONDS = 1200
RUN_SECONDS = 600
JVM_OPTIONS = ("-Xmx2g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""For short runs: the quick compiler and the smallest collector start fastest."""

ARCHIVE = "classes.jsa"
SAY_NOTHING = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""An archive that does not fit is not used, and a class that does not fit is not archived."""


class OracleUnavailable(RuntimeError):
    """The JDK, Maven or the build is missing; the message says what to do."""


class OracleFailed(RuntimeError):
    """The oracle ran and said no.

    Attributes:
        status: its exit status: 1 not well, 2 wrong usage.
        lines: what it printed before, parsed.
    """

    def __init__(
        self, command: list[str], status: int, lines: list[dict[str, Any]], stderr: str
    ) -> None:
        self.status = status
        self.lines = lines
        super().__init__(f"oracle {' '.join(command)}: exit {status}\n{stderr[-4000:]}")


_current = [OLDEST]


def kafka() -> str:
    """The Kafka whose code runs if a caller names none: one of KAFKAS."""
    return _current[-1]


@contextmanager
def using(version: str) -> Iterator[None]:
    """Another Kafka for a while. Effects: changes what `kafka` returns."""
    if version not in TARGETS:
        raise OracleUnavailable(f"The tests know Kafka {', '.join(KAFKAS)}, not {version}.")
    _current.append(version)
    try:
        yield
    finally:
        _current.pop()


@cache
def java() -> str:
    """The `java` of a JDK 17 or newer: from JAVA_HOME, else from PATH."""
    remedy = "install JDK 17 (Debian: apt-get install openjdk-17-jdk-headless)."
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not program or not Path(program).exists():
        raise OracleUnavailable(f"The tests that ask Kafka need Java and found none: {remedy}")
    if not Path(program).resolve().with_name("javac").exists():
        raise OracleUnavailable(f"{program} belongs to a JRE without a compiler: {remedy}")
    printed = subprocess.run(
        [program, "-version"], capture_output=True, text=True, check=True
    ).stderr
    version = re.search(r'version "(\d+)', printed)
    if version is None or int(version[1]) < 17:
        raise OracleUnavailable(f"{program} is older than 17: {remedy}")
    return program


def _sources_digest(project: Path) -> str:
    digest = hashlib.sha256()
    for path in [project / "pom.xml", *sorted((project / "src").rglob("*"))]:
        if path.is_file():
            digest.update(f"{path.relative_to(project)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _build(project: Path, *options: str) -> None:
    java()
    maven = shutil.which("mvn")
    if maven is None:
        raise OracleUnavailable(
            "The tests that ask Kafka need Maven and found none: "
            "install it (Debian: apt-get install maven)."
        )
    done = subprocess.run(
        [maven, "-q", "-B", *options, "package"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        output = (done.stdout + done.stderr)[-4000:]
        raise OracleUnavailable(f"`mvn package` failed in {project}:\n{output}")


def oracle_classpath(version: str | None = None) -> str:
    """Builds the project for a Kafka if its sources changed. Effects: writes its target.

    Returns:
        the class path of the built project.
    """
    version = version or kafka()
    return classpath_of(PROJECT, TARGETS[version], (f"-Pkafka-{version}",))


def oracle_target() -> Path:
    """The directory of the build of the current Kafka; `oracle_classpath` makes it."""
    return PROJECT / TARGETS[kafka()]


def oracle_jvm(*options: str, more: str = "", version: str | None = None) -> list[str]:
    """The words before a main class of the project, which is built if its sources changed.

    Args:
        options: of the JVM; they win over JVM_OPTIONS.
        more: a class path after the project's own.
        version: of Kafka, if not the current one.
    """
    version = version or kafka()
    path = oracle_classpath(version) + (os.pathsep + more if more else "")
    return [
        java(),
        *JVM_OPTIONS,
        *shared_classes(PROJECT / TARGETS[version]),
        *options,
        "-cp",
        path,
    ]


def shared_classes(target: Path) -> tuple[str, ...]:
    """The options with which a JVM takes loaded classes from the archive of a build, if it has one.
    A broker then needs half of the CPU time until it listens.
    """
    archive = target / ARCHIVE
    return (f"-XX:SharedArchiveFile={archive}", *SAY_NOTHING) if archive.exists() else ()


def build_all(free_port: Callable[[], int]) -> None:
    """Builds the project for every Kafka, each with an archive of the classes that a broker loads.
    Effects: writes their targets.
    """
    for version in KAFKAS:
        command = oracle_jvm(version=version)
        archive = PROJECT / TARGETS[version] / ARCHIVE
        if archive.exists():
            continue
        with tempfile.TemporaryDirectory(dir=archive.parent) as out:
            made = Path(out) / archive.name
            options = [f"-XX:ArchiveClassesAtExit={made}", *SAY_NOTHING]
            words = ["oracle.Main", "generate", "--case", "real-broker", "--out", out]
            subprocess.run(
                [command[0], *options, *command[1:], *words, "--port", str(free_port())],
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=RUN_SECONDS,
            )
            made.replace(archive)


@cache
def classpath_of(project: Path, target_name: str = "target", options: tuple[str, ...] = ()) -> str:
    """Builds a Maven project of the tests if its sources changed. Effects: writes its target.

    Returns:
        its class path.
    """
    target = project / target_name
    target.mkdir(exist_ok=True)
    stamp = target / "built-from.sha256"
    with (target / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        digest = _sources_digest(project)
        if not stamp.exists() or stamp.read_text() != digest:
            stamp.unlink(missing_ok=True)
            (target / ARCHIVE).unlink(missing_ok=True)
            _build(project, *options)
            stamp.write_text(digest)
    (jar,) = target.glob("*.jar")
    return f"{jar}{os.pathsep}{target / 'lib'}/*"


def oracle_jvm_with(sources: Sequence[Path]) -> list[str]:
    """`oracle_jvm` of the current Kafka with further classes of `oracle`, compiled if changed.

    Effects: writes its target.
    """
    path = oracle_classpath()
    classes = oracle_target() / sources[0].stem
    with (oracle_target() / "javac.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for source in sources:
            built = classes / "oracle" / f"{source.stem}.class"
            if not built.exists() or built.stat().st_mtime < source.stat().st_mtime:
                javac = str(Path(java()).resolve().with_name("javac"))
                words = [javac, "-cp", path, "-d", str(classes), *map(str, sources)]
                subprocess.run(words, check=True)
                break
    return oracle_jvm(more=str(classes))


def run_java(
    main_class: str,
    *args: str | Path,
    options: tuple[str, ...] = (),
    timeout_seconds: float = RUN_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Runs one of the project's main classes and waits for it."""
    return subprocess.run(
        [*oracle_jvm(*options), main_class, *map(str, args)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout_seconds,
        check=False,
    )


def run_oracle(*args: str | Path, check: bool = True) -> list[dict[str, Any]]:
    """Runs one command of the oracle (tests/oracle/README.md).

    Args:
        args: the command and its options, as on the command line.
        check: whether an exit status other than 0 raises; `verify` says 1 when it finds problems.

    Returns:
        the JSON objects that it printed.

    Raises:
        OracleUnavailable: JDK or Maven is missing, or the build failed.
        OracleFailed: its exit status was not 0.
    """
    done = run_java("oracle.Main", *args)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if check and done.returncode != 0:
        raise OracleFailed([str(arg) for arg in args], done.returncode, lines, done.stderr)
    return lines
