"""Secrets that the policies refer to."""

import os
from collections.abc import Mapping

from logwright.config.table import references
from logwright.errors import PolicyError


def with_secrets(catalog: Mapping[str, str], *, topic: str) -> dict[str, str]:
    """Return the properties of a table's catalog with the values of ``${NAME}``. Effects: reads the
    environment.

    Args:
        catalog: as the policies have it.
        topic: whose table it is, for the message.

    Raises:
        PolicyError: a variable is not set.
    """
    named = references(catalog)
    missing = sorted(variable for variable in named.values() if variable not in os.environ)
    if missing:
        raise PolicyError(
            f"the catalog of the table of topic {topic} needs the environment variables"
            f" {', '.join(missing)}, which are not set."
        )
    return {**catalog, **{name: os.environ[variable] for name, variable in named.items()}}
