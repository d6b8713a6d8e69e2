"""The cluster whose brokers are maintained while it runs."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import dagster as dg
from pydantic import PrivateAttr

from logwright.config.cluster import Cluster, read_cluster
from logwright.errors import LogwrightError
from logwright.rolling.broker import BrokerMaintenance
from logwright.rolling.controller import local_controller
from logwright.rolling.run import run as only_run
from logwright.rolling.site import open_site

_LOG = logging.getLogger(__name__)

CLUSTER_VARIABLE: Final = "LOGWRIGHT_CLUSTER"
WAIT_SECONDS: Final = 30.0
"""How long a step waits for the lock of another run: one that the journal refuses has it for an
instant.
"""


class ClusterFile(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The file of a cluster (docs/rolling.md).

    Attributes:
        file: its path; if not given, LOGWRIGHT_CLUSTER; without any there is no rolling
            maintenance.
    """

    file: str | None = None
    _away: BrokerMaintenance | None = PrivateAttr(default=None)

    def path(self) -> Path | None:
        """Return the path, None if there is none. Effects: reads the environment."""
        given = self.file or os.environ.get(CLUSTER_VARIABLE)
        return Path(given) if given else None

    def load(self) -> Cluster | None:
        """Return the file's content; None without a file, or if it is invalid, which is logged: the
        code location loads all the same (docs/adr/0019). Effects: reads it.
        """
        path = self.path()
        try:
            return None if path is None else read_cluster(path)
        except LogwrightError as error:
            _LOG.error("the cluster's file cannot be used: %s", error)
            return None

    def active_controller(self) -> int | None:
        """Return the active controller's node id, None if it is not known or its log directories
        are on another machine. Effects: reads the file, and what the nodes have noted.
        """
        path, config = self.path(), self.load()
        if path is None or config is None:
            return None
        return local_controller(config, path.absolute().parent).node

    def work(self, broker: int, say: Callable[[str], None]) -> BrokerMaintenance:
        """Return a broker's maintenance. Effects: reads the file.

        Args:
            broker: its id.
            say: called with each line of progress.

        Raises:
            ValueError: there is not a file.
            LogwrightError: see `open_site`.
        """
        path = self.path()
        if path is None:
            raise ValueError(f"{CLUSTER_VARIABLE} is not set")
        return BrokerMaintenance(open_site(path, say), broker)

    def stopped(self, work: BrokerMaintenance | None) -> None:
        """Note the broker that this run has stopped, None once it is started."""
        self._away = work

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Start a broker that a run has stopped which was canceled between two of its steps.
        Effects: the start hook.
        """
        del context
        if self._away is not None:
            with only_run(self._away.site, wait_seconds=WAIT_SECONDS):
                self._away.bring_back()
            self._away = None
