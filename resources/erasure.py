"""Where erasure requests and the countdown of their deadlines are."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from logwright.config.erasure import ErasureSettings
from logwright.erasure.secret import ENVIRONMENT, Secret, load_secret
from logwright.errors import PolicyError

COUNTDOWN: Final = "deletion_deadlines.json"
"""Its file below the instance's storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPlaces:
    """The directories of erasure requests, and the secret.

    Attributes:
        landing: None: requests are stored by other means.
    """

    landing: Path | None
    store: Path
    secret: Secret


def request_places(settings: ErasureSettings) -> RequestPlaces:
    """Return the places of the policies. Effects: reads the secret's file, or the environment.

    Raises:
        PolicyError: there is no store, or no secret that only its owner can read.
    """
    if settings.store is None:
        raise PolicyError(
            "the policies have no 'erasure:' with a store.", remedy="Reload the code location."
        )
    secret_file = None if settings.secret_file is None else Path(settings.secret_file)
    return RequestPlaces(
        landing=None if settings.landing is None else Path(settings.landing),
        store=Path(settings.store),
        secret=load_secret(secret_file, os.environ.get(ENVIRONMENT)),
    )


def certificate_path(settings: ErasureSettings, name: str) -> Path | None:
    """Return where the policies want a certificate; None if they want none."""
    if settings.certificates is None:
        return None
    return Path(settings.certificates) / f"{name}.json"


def countdown_path(storage: str | Path) -> Path:
    """Return the file of the countdown, below the instance's storage directory."""
    return Path(storage) / COUNTDOWN
