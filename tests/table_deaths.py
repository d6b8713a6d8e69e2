"""Updates of tables that die at one of their effects."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile

from logwright.bucket.store import Bucket
from logwright.tables.files import BucketFiles


class Died(BaseException):
    """The process is gone: nothing catches it."""


class Effects:
    """Counts effects, and dies before or after one of them; after that there is none."""

    def __init__(self) -> None:
        self.done = 0
        self.dies_at: int | None = None

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, counted."""

        def called(*arguments: object, **named: object) -> object:
            self._step()
            result = function(*arguments, **named)
            self._step()
            return result

        return called

    def _step(self) -> None:
        self.done += 1
        if self.dies_at is not None and self.done >= self.dies_at:
            raise Died


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Effects]:
    """Count the effects of an update on the table: of the file system, and commits of libraries."""
    effects = Effects()
    places: list[tuple[Any, str]] = [
        *((os, name) for name in ("fsync", "link", "replace", "unlink")),
        *((Path, name) for name in ("replace", "unlink", "mkdir")),
        (shutil, "rmtree"),
        (BucketFiles, "create"),
        (BucketFiles, "remove"),
        (Bucket, "put_unique"),
        *((SqlCatalog, name) for name in ("commit_table", "create_namespace_if_not_exists")),
        (PyArrowFile, "create"),
    ]
    with monkeypatch.context() as patched:
        for owner, name in places:
            patched.setattr(owner, name, effects.wrap(getattr(owner, name)))
        yield effects
