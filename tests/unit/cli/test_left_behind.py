"""Copies of records that a killed command left are removed by the next search, or named by it."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logwright.bucket.store import Bucket
from logwright.maintenance.scratch import own_temporary, temporary_directory
from tests.bucket.servers import NAME, environment, in_a_process
from tests.e2e.command import PROGRAM, call
from tests.log_builder import START_MS, LogBuilder

ANN = "ann@example.com"
NOW_MS = START_MS + 86_400_000
SLOW = f"""
import time
from logwright.erasure.find import tables
def slow(*_):
    print("in the copy", flush=True)
    time.sleep(600)
tables.scan_parquet = slow
{PROGRAM}
"""


@pytest.fixture(name="temporary")
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are, of this test alone."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return directory


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """A log directory without Ann, keys, secret and signing key."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("eve", "1")])
    log.segment(1)
    log.write()
    (tmp_path / "logs/.kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    (tmp_path / "keys").write_text(f"{ANN}\n")
    (tmp_path / "secret").write_text("0123456789abcdef" * 4)
    (tmp_path / "secret").chmod(0o600)
    assert 0 == call("certificate", "--new-key", tmp_path / "key").status
    return tmp_path


def words(place: Path) -> tuple[object, ...]:
    """What `find` and `certificate` are given."""
    keys = ("--keys", place / "keys", "--secret", place / "secret", "--now", NOW_MS)
    return (place / "logs", *keys, "--config", "cleanup.policy=compact")


def state(place: Path) -> str:
    """What a certificate says of Ann."""
    out = place / "certificate.json"
    call("certificate", *words(place), "--signing-key", place / "key", "--out", out)
    (request,) = json.loads(out.read_text())["certificate"]["requests"]
    return str(request["state"])


def files_with_ann(directory: Path) -> list[Path]:
    """Files below a directory that have her."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [path for path in files if ANN.encode() in path.read_bytes()]


def test_a_killed_search_leaves_no_copy(
    place: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM ends it as Ctrl-C does; after SIGKILL a search of another place removes it."""
    with in_a_process() as port:
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        content = io.BytesIO()
        pq.write_table(pa.table({"key": pa.array([ANN.encode()], pa.binary())}), content)
        Bucket.of(f"s3://{NAME}/lake/t").create("0.parquet", content.getvalue())
        command = ("find", *words(place), "--table", f"s3://{NAME}/lake/t")
        for number, status in ((signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)):
            process = subprocess.Popen(
                [sys.executable, "-c", SLOW, *map(str, command)], stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            process.stdout.readline()
            assert 1 == len(files_with_ann(temporary))
            process.send_signal(number)
            process.communicate()
            assert status == process.returncode
            assert (number == signal.SIGKILL) == bool(files_with_ann(temporary))
    answer = call("find", *words(place))
    assert 0 == answer.status
    assert "removed: a killed command left it" in answer.err
    assert [] == files_with_ann(temporary)


@pytest.mark.usefixtures("temporary")
def test_nothing_is_proved_while_a_copy_is_left(place: Path) -> None:
    """It is named. What a running command uses goes with it, and is not."""
    with temporary_directory():
        assert 0 == call("find", *words(place)).status
        assert "not found" == state(place)
    note = own_temporary() / "logwright-copy-0123456789abcdef"
    note.mkdir()
    (note / "elsewhere").write_bytes(b"/nowhere/logwright-copy-0123456789abcdef\n")
    answer = call("find", *words(place))
    assert 9 == answer.status
    assert f"{note}: copies of records, which a killed command left" in answer.out
    assert "not proved" == state(place)
    (note / "elsewhere").unlink()
    assert "not found" == state(place)
    assert [] == [*own_temporary().iterdir()]
