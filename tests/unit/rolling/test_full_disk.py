"""A broker is started whatever cannot be written meanwhile."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from logwright.config.cluster import Cluster
from logwright.errors import LogwrightError, UnreadableFile
from logwright.rolling.broker import BrokerMaintenance, Site
from logwright.rolling.hooks import run_command
from logwright.rolling.journal import write_journal
from logwright.rolling.model import ClusterNow, Journal, PartitionNow
from logwright.rolling.records import RunningTopics


class Healthy:
    """A cluster in which the broker is."""

    def look(self) -> ClusterNow:
        """One broker, and no partition."""
        return ClusterNow(cluster_id="c", brokers=frozenset({1}), partitions=())

    def elect(self, partitions: list[PartitionNow], /) -> None:
        """There is nothing to elect."""
        raise AssertionError(partitions)


def maintenance(tmp_path: Path, lines: list[str]) -> BrokerMaintenance:
    """Of a broker whose start hook makes the file `started`; nothing can be noted."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "state").write_text("a file, where the directory should be")
    config = Cluster(
        version="1",
        bootstrap_servers=("localhost:1",),
        state="state",
        stop=["true"],
        start=["touch", "started"],
        maintain=[["verify"]],
        brokers=[{"id": 1, "log_dirs": ["logs"]}],
    )
    site = Site(
        directory=tmp_path,
        config=config,
        admin=Healthy(),
        topics=RunningTopics(("localhost:1",), {}),
        secrets=(),
        say=lines.append,
        now_ms=lambda: 0,
    )
    return BrokerMaintenance(site, 1)


def test_a_command_runs_where_no_file_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it writes is not kept."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    ended = run_command(["sh", "-c", "touch done; echo lost"], limit_ms=10_000, directory=tmp_path)
    assert (0, "") == (ended.status, ended.output)
    assert (tmp_path / "done").exists()


def test_a_journal_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Not a traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UnreadableFile, match="cannot be written") as raised:
        write_journal(tmp_path / "file/rolling.json", Journal(broker=1, step="stop"))
    assert str(tmp_path / "file/rolling.json") in str(raised.value)


def test_a_broker_is_brought_back_although_that_cannot_be_noted(tmp_path: Path) -> None:
    """The error is the first one, of the step."""
    lines: list[str] = []
    work = maintenance(tmp_path, lines)
    with pytest.raises(LogwrightError, match="cannot be"), work.brought_back():
        work.maintain()
    assert (tmp_path / "started").exists()
    assert any("it is started; that is not noted" in line for line in lines)
