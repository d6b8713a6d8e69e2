"""The file system of a process that ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logwright.steps.filesystem import FileSystem
from tests.bucket_maintenance.breaking import Killed


class Dying:
    """A file system of a process that ends before or after one of its calls."""

    def __init__(self, fs: FileSystem, number: int) -> None:
        self.fs, self.left = fs, number

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- a method of FileSystem
        method: Callable[..., Any] = getattr(self.fs, name)

        def call(*given: Any, **options: Any) -> Any:  # noqa: ANN401 -- as of FileSystem
            self.left -= 1
            if self.left < 0:
                raise Killed
            answer = method(*given, **options)
            self.left -= 1
            if self.left < 0:
                raise Killed
            return answer

        return call
