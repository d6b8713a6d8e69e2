"""What `logwright recover` leaves is what Kafka 4.3.0's own loader and clean stop left."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from logwright.cli.main import main
from tests import fixtures

CASES = [name for name in fixtures.CASES if "recover" in fixtures.description(name)["ops"]]


def run(*arguments: str) -> None:
    """The command line, in this process."""
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert 0 == done.exit_code, done.output


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_the_outcome_is_kafkas(name: str, tmp_path: Path) -> None:
    """Segments, indexes, snapshots, checkpoints, epochs and modification times: no difference."""
    log_dir = fixtures.copy_before(name, tmp_path)
    case = fixtures.description(name)
    settings = fixtures.settings(name)
    now = str(case["now"])
    for op in case["ops"]:
        options = ["--like-kafka", "--yes", "--now", now, *settings]
        arguments = options if op == "recover" else fixtures.clean_arguments(name)
        run(op, str(log_dir), "t-0", *arguments)
    later = str(case["now"] + 60_000)
    run("purge", str(log_dir), "t-0", *settings, "--now", later, "--yes")
    assert [] == fixtures.compare_after(name, log_dir)
    left = [path.name for path in (log_dir / "t-0").iterdir()]
    assert [] == [each for each in left if each.endswith((".deleted", ".cleaned", ".swap"))]
    assert ".logwright" not in left
