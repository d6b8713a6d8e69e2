"""The operator's policies."""

import logging
import os
from pathlib import Path
from typing import Final

import dagster as dg

from logwright.bucket.store import SCHEMES
from logwright.config.policies import EXAMPLES, Policies, load_policies
from logwright.config.sources import DirectorySettings, Places
from logwright.errors import PolicyError
from logwright.place.model import Place

_LOG = logging.getLogger(__name__)

POLICIES_VARIABLE: Final = "LOGWRIGHT_POLICIES"
METADATA_VARIABLE: Final = "LOGWRIGHT_METADATA"
KAFKA_VARIABLE: Final = "LOGWRIGHT_KAFKA_VERSION"
PROPERTIES_VARIABLE: Final = "LOGWRIGHT_SERVER_PROPERTIES"
NONE: Final = "none"


class PolicyDirectory(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The directory of YAML files with the settings of topics.

    Attributes:
        directory: its path; if not given, LOGWRIGHT_POLICIES, else the examples in the package.
        metadata: the clusters' ``__cluster_metadata-0`` directories, each ``PATH`` or
            ``LOG_DIR=PATH``; the path ``none`` means: do not read it. If not given,
            LOGWRIGHT_METADATA, separated by commas. For other log directories it is searched for.
        server_properties: the brokers' ``server.properties``, in the same form; if not given,
            LOGWRIGHT_SERVER_PROPERTIES.
        kafka_version: the Kafka that the brokers run, such as ``4.3``, in the same form; if not
            given, LOGWRIGHT_KAFKA_VERSION, else what the brokers registered in the metadata.
    """

    directory: str | None = None
    metadata: list[str] | None = None
    server_properties: list[str] | None = None
    kafka_version: list[str] | None = None

    def path(self) -> Path:
        """Return the directory. Effects: reads the environment."""
        given = self.directory or os.environ.get(POLICIES_VARIABLE)
        return Path(given) if given else EXAMPLES

    def load(self) -> Policies:
        """Load all policies. Effects: reads the files.

        Raises:
            PolicyError: they are invalid.
        """
        return load_policies(self.path())

    def settings(self) -> DirectorySettings:
        """Return the settings of all log directories from these policies and the clusters'
        metadata.
        Effects: reads the files.

        Raises:
            PolicyError: as `load`; an entry is neither VALUE nor LOG_DIR=VALUE.
        """
        metadata = _by_directory(self.metadata, METADATA_VARIABLE)
        properties = _by_directory(self.server_properties, PROPERTIES_VARIABLE)
        versions = _by_directory(self.kafka_version, KAFKA_VARIABLE)

        def places(log_dir: Place) -> Places:
            path = Path(str(log_dir))
            named = metadata.get(path, metadata.get(None))
            file = properties.get(path, properties.get(None))
            return Places(
                metadata=None if named is None or named == NONE else Path(named),
                find=named != NONE,
                properties=None if file is None else Path(file),
                kafka_version=versions.get(path, versions.get(None)),
            )

        return DirectorySettings(self.load(), places)


def log_problems(policies: PolicyDirectory) -> None:
    """Log the problems of the policies, when the code location is loaded. It loads all the same:
    every tick and run that needs the policies fails with the same text until they are corrected
    (docs/adr/0019). Effects: reads the files; may log an error.
    """
    try:
        policies.load()
    except PolicyError as error:
        _LOG.error("The policies are invalid, so nothing will be maintained:\n%s", error)


def _by_directory(given: list[str] | None, variable: str) -> dict[Path | None, str]:
    """Return log directory → value; None is the default for the others. Effects: reads the
    environment.
    """
    entries = os.environ.get(variable, "").split(",") if given is None else given
    values: dict[Path | None, str] = {}
    for entry in filter(None, map(str.strip, entries)):
        log_dir, equals, value = entry.rpartition("=")
        whose = Path(log_dir) if equals else None
        known = whose is None or whose.is_absolute() or log_dir.partition(":")[0] in SCHEMES
        if not value or whose in values or not known:
            raise PolicyError(
                f"{variable}: {entry!r} is neither VALUE nor /LOG_DIR=VALUE, or the second of its"
                " directory."
            )
        values[whose] = value
    return values
