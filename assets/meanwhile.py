"""Importing what a later step needs while this one waits for Spark."""

import importlib
import os
from contextlib import suppress
from threading import Thread


def import_great_expectations() -> None:
    """Import Great Expectations in the background. An error is raised where it is used.

    The import takes seconds, about as long as Spark takes to start, for which this process only
    waits. Effects: a thread that ends by itself.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    Thread(target=_load, name="import of great_expectations", daemon=True).start()


def _load() -> None:
    with suppress(ImportError):
        importlib.import_module("great_expectations.expectations")
