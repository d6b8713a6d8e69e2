"""No table is made where a broker would then not start."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from logwright.cli.main import main
from tests.differential.oracle_server import OracleServer, shared
from tests.log_builder import START_MS, LogBuilder
from tests.table_rows import FORMATS

pytestmark = pytest.mark.oracle

META = "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=aaaaaaaaaaaaaaaaaaaaaw\n"


def log_directory(path: Path, *, known: bool) -> Path:
    """With a log; known by its files or not."""
    log = LogBuilder(path)
    log.segment(0).batch(0, [("a", "1")])
    log.write()
    if known:
        (path / "meta.properties").write_text(META)
    else:
        for checkpoint in path.glob("*checkpoint"):
            checkpoint.unlink()
    return path


def loaded(kafka: OracleServer, log_dir: Path) -> dict[str, Any]:
    """What Kafka's LogManager says of it."""
    return kafka.ask(
        {
            "request": "manager",
            "logDir": str(log_dir),
            "config": {},
            "now": START_MS,
            "producerIdExpirationMs": 86_400_000,
        }
    )


def latest(log_dir: Path, *words: object) -> Any:  # noqa: ANN401 -- click's result
    """The command, in process."""
    return CliRunner().invoke(main, ["latest", str(log_dir), "t", *map(str, words)])


def test_a_directory_of_a_table_stops_a_broker(tmp_path: Path) -> None:
    """So Kafka's LogManager says, of what an update makes first; a copy without it loads."""
    for name in (".logwright", "table"):
        log_dir = log_directory(tmp_path / f"logs-{name}", known=True)
        copy = shutil.copytree(log_dir, tmp_path / f"copy-{name}")
        (log_dir / name).mkdir()
        assert "is not in the form of topic-partition" in loaded(shared(), log_dir)["loadFailed"]
        assert "loadFailed" not in loaded(shared(), copy)


def test_no_table_in_a_log_directory(tmp_path: Path) -> None:
    """Its own, another one, through a link or in a partition's: refused before anything is made,
    and Kafka loads the directory.
    """
    own = log_directory(tmp_path / "own", known=False)
    other = log_directory(tmp_path / "other", known=True)
    (tmp_path / "link").symlink_to(other)
    places = [own, own / "x", own / "t-0/x", other, other / "x/y", tmp_path / "link/x"]
    before = {path: sorted(path.rglob("*")) for path in (own, other)}
    for place in places:
        for form in FORMATS:
            done = latest(own, "--to", place, "--format", form)
            assert 5 == done.exit_code, (place, form)
            assert "no broker would start on it" in done.stderr
        assert 5 == latest(own, "--to", place, "--columns", "key").exit_code
        assert before == {path: sorted(path.rglob("*")) for path in (own, other)}
    for log_dir in (own, other):
        assert "loadFailed" not in loaded(shared(), log_dir)
    assert 0 == latest(own, "--to", tmp_path / "tables/x").exit_code
