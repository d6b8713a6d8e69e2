"""Settings that are accepted and change nothing say so once."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from logwright.cli.main import main
from logwright.config.policies import load_policies
from tests.fixtures import case_dir

NAMES = ("log.cleaner.backoff.ms", "log.cleaner.io.buffer.size")


@pytest.mark.parametrize("name", NAMES)
def test_the_command_line_says_so(name: str) -> None:
    """One line on stderr, whatever the number of topics."""
    words = ["plan", str(case_dir("basic-none") / "before"), "--config", f"{name}=99"]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert 0 == result.exit_code, result.output
    assert 1 == result.stderr.count(f"{name} has no effect: ")


def test_others_are_not_named() -> None:
    """A setting that has an effect is not spoken of."""
    words = ["plan", str(case_dir("basic-none") / "before"), "--config", "log.cleaner.threads=2"]
    assert "no effect" not in CliRunner().invoke(main, words, catch_exceptions=False).stderr


@pytest.mark.parametrize("name", NAMES)
def test_loading_policies_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """With its place in the file; loading it again says nothing."""
    path = tmp_path / "defaults.yml"
    path.write_text(f"version: 1\ndefaults:\n  {name}: 99\n")
    for _ in range(2):
        load_policies(tmp_path)
    warnings_logged = [
        record.getMessage() for record in caplog.records if "has no effect" in record.getMessage()
    ]
    assert [True] == [
        line.startswith(f"{path}:3:3: {name} has no effect: ") for line in warnings_logged
    ]
