"""What a recovery makes of future, stray and deleted logs is what Kafka's own LogManager makes of
them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from logwright.cli.main import main
from tests import fixtures
from tests.comparison import live_files
from tests.differential.oracle_server import OracleServer

NAME = "torn-tail"
UNIQUE = "0123456789abcdef0123456789abcdef"


def directory(tmp_path: Path, *marks: str, current: bool) -> Path:
    """An unclean log directory with a torn log under each of these marks."""
    log_dir = fixtures.copy_before(NAME, tmp_path)
    for mark in marks:
        marked = log_dir / f"t-0.{UNIQUE}-{mark}"
        shutil.copytree(log_dir / "t-0", marked, copy_function=shutil.copy2)
    if not current:
        shutil.rmtree(log_dir / "t-0")
    return log_dir


@pytest.mark.rotates(4)
@pytest.mark.oracle
@pytest.mark.parametrize("current", [True, False], ids=["with the current log", "without"])
@pytest.mark.parametrize("mark", ["future", "stray", "delete"])
def test_a_marked_log_is_what_kafkas_manager_leaves(
    server: OracleServer, tmp_path: Path, mark: str, *, current: bool
) -> None:
    """Future and stray logs are recovered, a deleted one keeps its torn tail; all is clean then."""
    ours = directory(tmp_path, mark, current=current)
    kafkas = tmp_path / "kafkas"
    shutil.copytree(ours, kafkas, copy_function=shutil.copy2)
    case = fixtures.description(NAME)
    answer = server.ask(
        {
            "request": "manager",
            "logDir": str(kafkas),
            "config": dict(fixtures.partition_of(NAME).config),
            "now": case["now"],
            "producerIdExpirationMs": case["producerIdExpirationMs"],
        }
    )
    assert "loadFailed" not in answer
    arguments = ["recover", str(ours), "--like-kafka", "--yes", *fixtures.settings(NAME)]
    done = CliRunner().invoke(main, [*arguments, "--now", str(case["now"])], catch_exceptions=False)
    assert 0 == done.exit_code, done.output
    assert (kafkas / ".kafka_cleanshutdown").exists()
    assert (ours / ".kafka_cleanshutdown").exists()
    name = f"t-0.{UNIQUE}-{mark}"
    assert (mark == "future") == (name in answer["logs"])
    # Kafka does not close a stray or deleted log, so the room for their indexes stays.
    suffixes = (".log", ".index", ".timeindex") if mark == "future" else (".log",)
    expected, actual = live_files(kafkas / name), live_files(ours / name)
    chosen = [one for one in expected if one.endswith(suffixes)]
    assert chosen == [one for one in actual if one.endswith(suffixes)]
    assert [] == [one for one in chosen if expected[one].read_bytes() != actual[one].read_bytes()]
    if mark == "future":
        for checkpoint in ("recovery-point", "log-start"):
            file = f"{checkpoint}-offset-checkpoint"
            assert (kafkas / file).read_bytes() == (ours / file).read_bytes()
