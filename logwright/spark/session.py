"""The Spark session's settings, all of them, and why each is what it is."""

from __future__ import annotations

import atexit
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

from logwright.errors import LogwrightError
from logwright.java import java_environment
from logwright.maintenance.scratch import temporary_directory
from logwright.spark.archive import archive_options
from logwright.spark.quiet_start import quiet_start
from logwright.spark.redaction import REDACTION, at_launch, redaction_regex

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

TASKS_PER_CORE: Final = 4
"""Tasks of one job for each core: enough to even out unequal logs, few enough to cost nothing."""

_PYTHON: Final = "PYSPARK_PYTHON"
_SUBMIT: Final = "PYSPARK_SUBMIT_ARGS"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_EXECUTOR_OPTIONS: Final = "spark.executor.defaultJavaOptions"
"""Spark puts ``spark.executor.extraJavaOptions`` after them: the operator's win."""
_FAST_EXECUTOR: Final = "-XX:TieredStopAtLevel=1"
"""No collector is named: a JVM does not start if the operator names another one."""
_FAST_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The JVM only carries rows of statistics: the optimising compiler and a parallel collector cost 10
s of start."""


def session_settings(
    *,
    master: str = "local[*]",
    remote: str | None = None,
    cores: int | None = None,
    driver_memory: str = "1g",
    event_log_directory: Path | None = None,
    numba_cache_directory: Path | None = None,
    local_directory: Path | None = None,
) -> dict[str, str]:
    """Return the settings of a session for sweeps, by Spark's names.

    Args:
        master: ``local[*]``, or a cluster's address. A cluster's workers must see the log
            directories under the same paths, as tasks read and stage there.
        remote: address of a Spark Connect server, ``sc://…`` or ``local[*]``; then `master` is not
            used.
        cores: cores that the tasks are made for; those of this machine if not given.
        driver_memory: heap of the JVM. Logs never pass through it.
        event_log_directory: where Spark's event log goes; an existing directory. None: none is
            written.
        numba_cache_directory: where workers find compiled kernels, if not next to the modules.
        local_directory: where a session on this machine keeps the rows that it shuffles, see
            `local_directory`; ``SPARK_LOCAL_DIRS`` of the environment overrides it.
    """
    tasks = TASKS_PER_CORE * (cores or os.cpu_count() or 1)
    settings = {
        # Sizes of work are known before it starts: nothing is left to adapt, and bins must stay.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(tasks),
        # Rows are few and plans short: generated code would cost more to compile than it saves.
        "spark.sql.codegen.wholeStage": "false",
        # A crash in a compiled kernel is otherwise "worker exited unexpectedly".
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    }
    if remote is not None:
        # The rest was fixed when the server started.
        return settings | {"spark.remote": remote}
    settings |= {
        "spark.app.name": "logwright",
        "spark.master": master,
        "spark.driver.memory": driver_memory,
        _JAVA_OPTIONS: _FAST_START,
        "spark.log.level": "ERROR",
        REDACTION: redaction_regex(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.daemon.module": "logwright.spark.daemon",
        "spark.python.worker.faulthandler.enabled": "true",
    }
    if master.startswith("local"):
        settings |= _of_this_machine(local_directory)
    else:
        settings[_EXECUTOR_OPTIONS] = _FAST_EXECUTOR
    if numba_cache_directory is not None:
        settings["spark.executorEnv.NUMBA_CACHE_DIR"] = str(numba_cache_directory)
    if event_log_directory is not None:
        settings |= _event_log(event_log_directory)
    return settings


def _of_this_machine(local_directory: Path | None) -> dict[str, str]:
    # Nothing outside needs to reach the session.
    settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return (
        settings
        if local_directory is None
        else settings | {"spark.local.dir": str(local_directory)}
    )


def _event_log(directory: Path) -> dict[str, str]:
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": directory.resolve().as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


def start_jvm(settings: Mapping[str, str]) -> None:
    """Start Spark's JVM for a session with these settings, if this process has none. Effects: as
    said; its command line, which every user can read, has no secret one.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 -- settings need none of it

    conf = SparkConf(loadDefaults=False).setAll([*at_launch(settings).items()])
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 -- a session would show them all


def prepare_environment(*, is_local: bool = False) -> None:
    """Let Spark find this interpreter and a Java, and show no credentials. Effects: sets
    PYSPARK_PYTHON, JAVA_HOME and PYSPARK_SUBMIT_ARGS where they are not set.

    Without PYSPARK_PYTHON the workers run the ``python3`` on the PATH. PYSPARK_SUBMIT_ARGS has what
    is redacted, for sessions without `session_settings`; a session's own setting overrides it.

    Args:
        is_local: the workers run on this machine: with this interpreter, whatever the environment
            has for other sessions, since this package may not be installed in that.
    """
    if is_local:
        os.environ[_PYTHON] = sys.executable
    os.environ.setdefault(_PYTHON, sys.executable)
    redacted = shlex.quote(f"{REDACTION}={redaction_regex()}")
    os.environ.setdefault(_SUBMIT, f"--conf {redacted} pyspark-shell")
    for name, value in java_environment().items():
        os.environ.setdefault(name, value)


_OPEN: Final[dict[int, Path]] = {}
"""The directory of a process, by its id: a forked process has one of its own."""


def local_directory() -> Path:
    """Return the directory in which the sessions of this process keep rows. Effects: makes it;
    it is removed when the process ends, or, if that is killed, by the next one.

    Raises:
        LogwrightError: there cannot be one.
    """
    process = os.getpid()
    if process not in _OPEN:
        stack = ExitStack()
        _OPEN[process] = stack.enter_context(temporary_directory())
        atexit.register(_close, process, stack)
    return _OPEN[process]


def _close(process: int, stack: ExitStack) -> None:
    if os.getpid() == process:
        del _OPEN[process]
        stack.close()


def use_this_python(session: SparkSession) -> None:
    """Let the workers of a running session on this machine be this interpreter, if the environment
    names none: without its environment activated, the ``python3`` on the PATH is another one.
    """
    context = getattr(session, "sparkContext", None)  # a Connect session has none
    if context is not None and context.master.startswith("local") and _PYTHON not in os.environ:
        context.pythonExec = sys.executable


class SparkDied(LogwrightError):
    """Spark's JVM, or one of its Python workers, died. Each log was changed as a whole, or not at
    all.
    """

    exit_status = 7


@contextmanager
def spark_at_work(*more: type[Exception]) -> Iterator[None]:
    """Turn a failure of Spark itself into an error that explains it: workers return the errors of
    their work as values.

    Args:
        more: exceptions that cannot mean anything else here.

    Raises:
        SparkDied: for these, and where Python has lost the JVM. By the exception's name alone:
            its text may contain data of a row.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 -- settings need none of it

    try:
        yield
    except (Py4JError, ConnectionError, EOFError, *more) as error:
        raise SparkDied(
            f"Spark's JVM or one of its Python workers died ({type(error).__name__}).",
            remedy="Each log was changed as a whole, or not at all. See whether the system ran out"
            " of memory; run it again.",
        ) from error


@contextmanager
def local_session() -> Iterator[SparkSession]:
    """Open a session on this machine's cores, for a command; reuses this process's session if there
    is one.

    Effects: starts a JVM, and ends the session that it started.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 -- seconds; settings need none
    from pyspark.sql import SparkSession  # noqa: PLC0415

    _wait_for_the_end()
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    prepare_environment(is_local=True)
    settings = session_settings(local_directory=local_directory())
    conf = SparkConf().setAll([*settings.items()])
    with quiet_start(conf) as gateway:
        if SparkContext._active_spark_context is None:  # noqa: SLF001 -- `getOrCreate` takes none
            SparkContext(conf=conf, gateway=gateway)
        builder: SparkSession.Builder = SparkSession.builder
        session = builder.config(conf=conf).getOrCreate()
    try:
        yield session
    finally:
        with suppress(SparkDied), spark_at_work():  # what was to be done with it, is done
            session.stop()


@contextmanager
def local_context() -> Iterator[SparkContext]:
    """Open the part of a session that a sweep needs, without SQL, for a command; reuses this
    process's own if there is one.

    Effects: starts a JVM, and begins to stop the context that it started. The next caller waits
    for that; a finished command does not, as the JVM exits with it. Stopping takes a second, mostly
    for the accumulators' server, which a sweep does not use.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 -- settings need none of it

    _wait_for_the_end()
    running = SparkContext._active_spark_context  # noqa: SLF001 -- `getOrCreate` would make one
    if running is not None:
        yield running
        return
    prepare_environment(is_local=True)
    settings = session_settings(local_directory=local_directory())
    settings[_JAVA_OPTIONS] += f" {archive_options(Path(os.environ['JAVA_HOME']))}"
    conf = SparkConf(loadDefaults=False).setAll([*settings.items()])
    with quiet_start(conf) as gateway:
        context = SparkContext(conf=conf, gateway=gateway)
    try:
        yield context
    finally:
        ending = Thread(target=_end, args=(context,), daemon=True)
        _ENDING[:] = [ending]
        ending.start()


@contextmanager
def cluster_context(master: str) -> Iterator[SparkContext]:
    """Open a context on a cluster, for a command. Effects: starts a JVM, and ends it.

    Args:
        master: its address, as ``spark://HOST:7077``; all other settings are those of Spark's own
            files and of `session_settings`.

    Raises:
        SparkDied: from what is done with it; also if no master answers within a minute.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 -- settings need none of it

    _wait_for_the_end()
    prepare_environment()
    conf = SparkConf().setAll([*session_settings(master=master).items()])
    with quiet_start(conf) as gateway:
        context = SparkContext(conf=conf, gateway=gateway)
    try:
        yield context
    except SparkDied as error:
        error.remedy = (
            "Each log was changed as a whole, or not at all. See whether"
            f" {master} answers, and has workers."
        )
        raise
    finally:
        _end(context)


_ENDING: Final[list[Thread]] = []
"""The last context's, if one ended."""


def _wait_for_the_end() -> None:
    for thread in _ENDING:
        thread.join()


def _end(context: SparkContext) -> None:
    with suppress(SparkDied), spark_at_work():  # what was to be done with it, is done
        context.stop()


def end_session() -> None:
    """End this process's session, if there is one: only then does its event log have its name."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- seconds; settings need none of it

    running = SparkSession.getActiveSession()
    if running is not None:
        running.stop()
