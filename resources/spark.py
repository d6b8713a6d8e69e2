"""The Spark session of a run, created at its first use."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Final, cast

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field, PrivateAttr

import logwright
from logwright.spark.session import (
    local_directory,
    prepare_environment,
    session_settings,
    start_jvm,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_VARIABLE: Final = "LOGWRIGHT_SPARK_MASTER"
REMOTE_VARIABLE: Final = "LOGWRIGHT_SPARK_REMOTE"
EVENTS_DIRECTORY: Final = "spark_events"
"""Directory of Spark's event logs below the instance's storage; one file per session."""


class Spark(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The Spark session of sweeps: local, on a cluster, or through a Connect server.

    Attributes:
        master: a Spark master; if not given, LOGWRIGHT_SPARK_MASTER, else ``local[*]``.
        remote: a Connect server; if not given, LOGWRIGHT_SPARK_REMOTE. Overrides `master`.
        driver_memory: heap size of the driver.
        settings: more Spark configs; they override logwright's.
    """

    master: str | None = None
    remote: str | None = None
    driver_memory: str = "1g"
    settings: dict[str, str] = Field(default_factory=dict)
    _event_log_directory: Path | None = PrivateAttr(default=None)
    _lazy: LazyPySparkResource | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Remember the instance's storage directory."""
        if context.instance is not None:
            self._event_log_directory = (
                Path(context.instance.storage_directory()) / EVENTS_DIRECTORY
            )

    @property
    def session(self) -> "SparkSession":
        """Return the session. Effects: starts a JVM once per process, which takes seconds."""
        if self._lazy is None:
            master = self.master or os.environ.get(MASTER_VARIABLE) or "local[*]"
            remote = self.remote or os.environ.get(REMOTE_VARIABLE)
            here = remote is None and master.startswith("local")
            prepare_environment(is_local=here)
            if self._event_log_directory is not None:
                self._event_log_directory.mkdir(parents=True, exist_ok=True)
            ours = session_settings(
                master=master,
                remote=remote,
                driver_memory=self.driver_memory,
                event_log_directory=self._event_log_directory,
                numba_cache_directory=self._numba_cache_directory(),
                local_directory=local_directory() if here else None,
            )
            settings = ours | self.settings
            if remote is None:
                start_jvm(settings)
            self._lazy = LazyPySparkResource(spark_config=settings)
        with _own_interrupts():
            return cast("SparkSession", self._lazy.spark_session)

    def _numba_cache_directory(self) -> Path | None:
        """Return the directory of compiled kernels if it cannot be next to the modules: all workers
        must find them.
        """
        given = os.environ.get("NUMBA_CACHE_DIR")
        if given:
            return Path(given)
        if os.access(Path(logwright.__file__).parent, os.W_OK) or self._event_log_directory is None:
            return None
        return self._event_log_directory.parent / "numba"


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep this process's handler of SIGINT, by which Dagster cancels a run: PySpark sets its own,
    after which a canceled run would be a failed one.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if current_thread() is main_thread():
            signal.signal(signal.SIGINT, before)
