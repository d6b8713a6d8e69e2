"""Kafka opens a log directory in each state in which a download from a bucket can leave it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from logwright.batches.runtime import silent
from logwright.bucket.store import Bucket
from logwright.maintenance import download as download_module
from logwright.maintenance.download import download_log
from tests.bucket_maintenance.breaking import Killed
from tests.bucket_maintenance.copies import T0, put, unlike
from tests.bucket_maintenance.random_logs import a_log
from tests.differential.oracle_server import OracleServer, shared
from tests.dying import Dying

pytestmark = pytest.mark.oracle

NOW_MS = 1_760_100_000_000
IDS = b"version=1\nnode.id=1\ncluster.id=Y2x1c3RlcmNsdXN0ZXJjbA\n"


@pytest.fixture
def server() -> OracleServer:
    """Of the oldest Kafka, or that of `--kafka`."""
    return shared()


def test_it_starts_wherever_a_download_was_killed(
    server: OracleServer, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is not there, or has all of its records; so after the next download."""
    monkeypatch.setattr(download_module, "_AT_ONCE", 1)
    log_dir, bucket = tmp_path / "logs", Bucket.of(f"file://{tmp_path}/bucket")
    a_log(log_dir, random.Random(seed))
    (log_dir / "meta.properties").write_bytes(IDS)
    put(log_dir, bucket)
    seen, killed = set(), True
    number = 0
    while killed:
        target = tmp_path / "target"
        target.mkdir()
        (target / "meta.properties").write_bytes(IDS)
        try:
            download_log(
                bucket,
                T0,
                target,
                progress=silent,
                wrap=lambda fs, left=number: Dying(fs, left),
            )
            killed = False
        except Killed:
            pass
        names = sorted(path.name[:4] for path in target.iterdir() if path.is_dir())
        state = (*names, (target / ".kafka_cleanshutdown").exists())
        if state not in seen or not killed:
            seen.add(state)
            booted = shutil.copytree(target, tmp_path / "booted")
            answer = server.boot(booted, NOW_MS)
            assert "bootFailed" not in answer, (state, answer)
            whole = server.boot(shutil.copytree(log_dir, tmp_path / "whole"), NOW_MS)
            if "t-0" in names:
                assert whole["logs"]["t-0"] == answer["logs"]["t-0"]
            if killed:
                download_log(bucket, T0, target, progress=silent)
            assert [] == unlike(log_dir, target)
            shutil.rmtree(booted)
            shutil.rmtree(tmp_path / "whole")
        shutil.rmtree(target)
        number += 1
    assert {("t-0.",), ("t-0", "t-0."), ("t-0",)} <= {state[:-1] for state in seen}
