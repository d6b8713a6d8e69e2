"""The optional parts of this project and their modules (extras in pyproject.toml)."""

from __future__ import annotations

import importlib.util
from types import MappingProxyType
from typing import Final

from logwright.errors import PreconditionError

_SPARK: Final = ("pyspark", "pyarrow", "pandas")
_ERASURE: Final = ("cryptography", "jinja2")
_TABLES: Final = (
    "deltalake",
    "fastavro",
    "google.protobuf",
    "grpc_tools",
    "orjson",
    "pyarrow",
    "pyiceberg",
    "pyroaring",
    "requests",
)
_DAGSTER: Final = (
    "dagster",
    "dagster_pyspark",
    "dagster_webserver",
    "great_expectations",
    "jinja2",
    "matplotlib",
    "pandera",
    "prometheus_client",
)

MODULES: Final = MappingProxyType(
    {
        "spark": _SPARK,
        "erasure": _ERASURE,
        "dagster": tuple(dict.fromkeys((*_DAGSTER, *_SPARK, *_TABLES, *_ERASURE))),
        "tables": _TABLES,
        "metrics": ("prometheus_client", "pyarrow"),
        "postgres": ("dagster_postgres", "psycopg2"),
        "archive": ("confluent_kafka", "pyarrow"),
        "tier": ("cryptography",),
        "bucket": ("obstore",),
    }
)
"""Extra → its modules that logwright imports, those of the extras that it includes too."""


class MissingExtra(PreconditionError, ImportError):  # type: ignore[misc]  # both have a `path`
    """A feature needs an extra that is not installed. An ImportError too: it may be raised
    by an import.
    """


def require(extra: str, *, by: str) -> None:
    """Raise unless an extra is installed. Imports nothing: that would take seconds.

    Args:
        extra: a key of `MODULES`.
        by: what needs it, the subject of the message.

    Raises:
        MissingExtra: a module is missing; names it, and the command that installs the extra.
    """
    missing = [name for name in MODULES[extra] if not _is_installed(name)]
    if missing:
        raise MissingExtra(
            f"{by} needs {', '.join(missing)}, not installed here.",
            remedy=f"Install the extra: pip install 'logwright[{extra}]'.",
        )


def _is_installed(name: str) -> bool:
    """Return whether a module is there."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False
