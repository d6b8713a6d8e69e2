"""What commands say that bring an older state of a replica back: in a cluster without eligible
leader replicas it may lead all the same (KIP-966).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.metadata_builder import (
    MetadataBuilder,
    feature,
    int32s,
    partition,
    partition_change,
    topic,
)
from tests.unit.cli.conftest import Answer, Call
from tests.unit.cli.test_doctor import log_dir

__all__ = ["log_dir"]
SENTENCE = "t-0: by the cluster's metadata this is the only replica in sync, and the"
MARKER = ".kafka_cleanshutdown"


@pytest.fixture(params=[0, 1])
def eligible(request: pytest.FixtureRequest, log_dir: Path) -> int:
    """Whether the cluster of the log directory has eligible leader replicas. Of its log this is the
    only replica in sync of two.
    """
    level = [feature("eligible.leader.replicas.version", 1)] * request.param
    alone = partition_change(5, 0, {0: int32s([1])})
    MetadataBuilder(log_dir).segment(0, [topic("t", 5), partition(5, 0, [1, 2]), alone, *level])
    return int(request.param)


def require_said(answer: Answer, eligible: int) -> None:
    """It ended well, and said who leads where that matters."""
    assert 0 == answer.status, answer.err
    assert (SENTENCE in answer.err) == (not eligible)
    assert ("leave this one stopped, and stop the others" in answer.err) == (not eligible)


def test_an_undo_of_a_rescue(call: Call, log_dir: Path, eligible: int) -> None:
    """Of a log that was set aside; before it is done, too."""
    aside = call("rescue", log_dir, "--set-aside", log_dir / "t-0", "--yes")
    assert 0 == aside.status, aside.err
    require_said(call("rescue", log_dir, "--undo", "--dry-run"), eligible)
    require_said(call("rescue", log_dir, "--undo", "--yes"), eligible)
    assert (log_dir / "t-0").is_dir()


def test_an_undo_of_a_deletion(call: Call, log_dir: Path, eligible: int) -> None:
    """The same."""
    assert 0 == call("delete", log_dir, "t-0", "--yes").status
    require_said(call("undo", log_dir, "t-0", "--dry-run"), eligible)
    require_said(call("undo", log_dir, "t-0", "--yes"), eligible)
    assert (log_dir / "t-0").is_dir()


def test_a_download(call: Call, log_dir: Path, tmp_path: Path, eligible: int) -> None:
    """Into a broker's directory; a new directory is not a replica."""
    bucket = f"file://{tmp_path / 'bucket'}"
    assert 0 == call("upload", log_dir, "--to", bucket).status
    shutil.rmtree(log_dir / "t-0")
    require_said(call("download", bucket, "t-0", "--to", log_dir), eligible)
    assert (log_dir / "t-0").is_dir()
    elsewhere = call("download", bucket, "t-0", "--to", tmp_path / "new")
    assert "only replica in sync" not in elsewhere.err
    assert "Not looked at" not in elsewhere.err


def test_a_move(call: Call, log_dir: Path, tmp_path: Path, eligible: int) -> None:
    """From a directory whose marker is of another stop."""
    source = tmp_path / "older"
    shutil.copytree(log_dir, source)
    shutil.rmtree(source / "__cluster_metadata-0")
    shutil.rmtree(log_dir / "t-0")
    for path, epoch in ((source, 7), (log_dir, 7)):
        (path / MARKER).write_text(f'{{"version":0,"brokerEpoch":{epoch}}}')
    same_stop = call("move", source, "t-0", "--to", log_dir, "--dry-run")
    assert (0, False) == (same_stop.status, SENTENCE in same_stop.err), same_stop.err
    (log_dir / MARKER).write_text('{"version":0,"brokerEpoch":9}')
    require_said(call("move", source, "t-0", "--to", log_dir, "--yes"), eligible)
    assert (log_dir / "t-0").is_dir()
