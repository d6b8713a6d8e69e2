"""Logs of message formats v0 and v1, those that real brokers wrote and random ones: what Kafka says
and makes of them is what we do.
"""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from logwright.cli.main import main
from logwright.format.names import TopicPartition
from logwright.log.dump import dump_partition, to_json
from tests import old_formats
from tests.comparison import dump
from tests.differential import old_logs
from tests.differential.oracle_server import OracleServer
from tests.property.accidents import META

REAL = [(root, name) for root in old_formats.DIRECTORIES for name in old_formats.PARTITIONS]
NOW = ("--now", str(4_000_000_000_000))


@pytest.fixture
def log_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of what a broker left, as a newer one loads it."""
    copy = tmp_path / "logs"
    shutil.copytree(old_formats.unpacked() / request.param, copy, copy_function=shutil.copy2)
    (copy / "meta.properties").write_text(META)
    return copy


def call(*arguments: object) -> str:
    """What a command prints."""
    done = CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)
    assert 0 == done.exit_code, done.output
    return done.stdout


def records_of(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of a dump."""
    return [record for line in lines if line["type"] == "batch" for record in line["records"]]


@pytest.mark.oracle
@pytest.mark.parametrize(("root", "name"), REAL)
def test_a_dump_is_kafkas(root: str, name: str) -> None:
    """Batches, records and index entries, field by field."""
    at = TopicPartition.parse(name)
    assert at is not None
    directory = old_formats.unpacked() / root
    ours = [json.loads(to_json(line)) for line in dump_partition(directory, at)]
    assert dump(directory, name) == ours
    assert {0, 1} >= {line["magic"] for line in ours if line["type"] == "batch"}
    assert len(records_of(ours)) > 20


@pytest.mark.parametrize("log_dir", old_formats.DIRECTORIES, indirect=True)
def test_commands_read_them(log_dir: Path) -> None:
    """`recover` makes the files that an old broker did not know, then all is read: the same records
    by `latest` as by `dump`, and each key is found.
    """
    call("recover", log_dir, "--yes", *NOW)
    assert "4 partitions checked, no problems found" in call("verify", log_dir)
    for name in old_formats.PARTITIONS:
        lines = [json.loads(line) for line in call("dump", log_dir, name).splitlines()]
        records = records_of(lines)
        keyed = {each["key"]: each for each in records if each["key"] is not None}
        latest = {key: each for key, each in keyed.items() if each["value"] is not None}
        to = log_dir.parent / name
        call("latest", log_dir, name.removesuffix("-0"), "--to", to, "--columns", "key,offset")
        rows = [row for path in to.rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
        expected = {base64.b64decode(key): each["offset"] for key, each in latest.items()}
        assert expected == {row["key"]: row["offset"] for row in rows}
        keys = log_dir.parent / "keys"
        keys.write_bytes(b"\n".join(sorted(expected)))
        answer = CliRunner().invoke(main, ["find", str(log_dir), "--keys", str(keys)])
        assert 8 == answer.exit_code, answer.output


@pytest.mark.rotates(8)
@pytest.mark.oracle
@pytest.mark.parametrize("number", range(25))
def test_random_logs(server: OracleServer, tmp_path: Path, number: int) -> None:
    """Recovered and cleaned: no difference; see `tests.differential.old_logs`."""
    assert old_logs.check(f"1-{number}", tmp_path, server) in ("same", "kafka fails")
