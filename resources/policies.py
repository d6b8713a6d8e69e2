"""The operator's policies."""

import os
from pathlib import Path
from typing import Final

import dagster as dg

import logwright
from logwright.config.policies import Policies, load_policies
from logwright.config.sources import DirectorySettings

POLICIES_VARIABLE: Final = "LOGWRIGHT_POLICIES"


class PolicyDirectory(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The directory of YAML files that say what is wanted of each topic.

    Attributes:
        directory: its path; if not given, LOGWRIGHT_POLICIES, else the examples that come with
            logwright.
    """

    directory: str | None = None

    def path(self) -> Path:
        """The directory. Effects: reads the environment."""
        given = self.directory or os.environ.get(POLICIES_VARIABLE)
        return Path(given) if given else Path(logwright.__file__).parent / "dbt_like_configs"

    def load(self) -> Policies:
        """All policies. Effects: reads the files.

        Raises:
            PolicyError: something in them is wrong.
        """
        return load_policies(self.path())

    def settings(self) -> DirectorySettings:
        """The settings of the topics of all log directories, by these policies and the clusters'
        own metadata. Effects: reads the files.

        Raises:
            PolicyError: as `load`.
        """
        return DirectorySettings(self.load())
