"""The command line as a user calls it, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from logwright.cli.main import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a call left: exit status, stdout, stderr."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Stdout as JSON, one object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


Call = Callable[..., Answer]


@pytest.fixture
def call() -> Call:
    """Calls ``logwright``. A bug is raised as the exception that it is."""

    def called(*words: str | Path | int, typed: str | None = None) -> Answer:
        result = CliRunner().invoke(main, [str(word) for word in words], input=typed)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(status=result.exit_code, out=result.stdout, err=result.stderr)

    return called
