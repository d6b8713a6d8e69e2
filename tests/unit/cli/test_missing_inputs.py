"""What `doctor` and `recover` can say although one input is missing, and what they then have not
looked at.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logwright.format.names import TopicPartition
from logwright.rescue.alone import elected_anyway
from logwright.steps.marker import WITHOUT_EPOCH
from tests.log_builder import LogBuilder
from tests.metadata_builder import (
    MetadataBuilder,
    int32s,
    partition,
    partition_change,
    topic,
    uuid_text,
)
from tests.property.accidents import META
from tests.unit.cli.conftest import Call

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
WATERMARKS = "replication-offset-checkpoint"
ABSENT = "the log is not there, and "
NOTHING_LEFT = "whether logs are missing of which "
WHO_LEADS = "whether this replica leads although it lacks records"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log in a directory that a broker left cleanly, with an entry of one that is not there."""
    root = tmp_path / "node/logs"
    log = LogBuilder(root)
    log.segment(0).batch(0, [("a", "1"), ("b", "2")]).batch(2, [("a", "3")])
    log.write(producers=True, high_watermark=3)
    (root / "meta.properties").write_text(META)
    (log.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(5)}")
    for name in (RECOVERY_POINTS, WATERMARKS):
        (root / name).write_text("0\n2\nt 0 3\nt 1 9\n")
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    return root


def metadata(place: Path, *more: bytes) -> Path:
    """A metadata log that gives node 1 both partitions, in a directory of it."""
    place.mkdir(parents=True, exist_ok=True)
    records = [topic("t", 5), partition(5, 0, [1, 2]), partition(5, 1, [1, 2]), *more]
    builder = MetadataBuilder(place)
    builder.segment(0, records, [topic("u", 6)])
    (place / "meta.properties").write_text(META.replace("=YWJj", "=YYJj"))
    return builder.path


@pytest.mark.parametrize(
    ("malformed", "absent"),
    [
        ((), True),
        (("cleaner-offset-checkpoint",), True),
        ((RECOVERY_POINTS,), True),
        ((WATERMARKS,), True),
        ((RECOVERY_POINTS, WATERMARKS), False),
    ],
    ids=["none", "another", "one of two", "the other", "both"],
)
def test_a_malformed_checkpoint_hides_only_its_own(
    call: Call, log_dir: Path, malformed: tuple[str, ...], absent: bool
) -> None:
    """A log of which nothing is left is seen by the checkpoint that can be read."""
    for name in malformed:
        (log_dir / name).write_bytes(bytes(20))
    answer = call("doctor", log_dir)
    assert absent == (f"{log_dir / 't-1'}: {ABSENT}" in answer.out), answer.out
    is_asked = not set(malformed) & {RECOVERY_POINTS, WATERMARKS}
    assert is_asked == (NOTHING_LEFT not in answer.err), answer.err


def test_a_missing_log_that_is_accepted(call: Call, log_dir: Path) -> None:
    """The marker loses the broker's epoch, so that a whole replica leads; without the acceptance
    all stays, and is left to the operator. It is not said of a directory that lacks nothing.
    """
    marker = log_dir / ".kafka_cleanshutdown"
    before = marker.read_bytes()
    refused = call("rescue", log_dir, "--yes")
    assert f"by hand: {log_dir / 't-1'}: {ABSENT}" in refused.out
    assert "run `logwright rescue --accept-loss` before this broker starts" in refused.out
    shown = call("rescue", log_dir, "--accept-loss", "--dry-run")
    assert f"do without {log_dir / 't-1'}: {ABSENT}" in shown.out
    assert "by hand: " not in shown.out
    assert (11, 11, before) == (refused.status, shown.status, marker.read_bytes())
    answer = call("rescue", log_dir, "--accept-loss", "--yes")
    assert (0, b"") == (answer.status, marker.read_bytes())
    assert f"do without {log_dir / 't-1'}: {ABSENT}" in answer.out
    assert WITHOUT_EPOCH in answer.err
    assert NOTHING_LEFT in answer.err
    again = call("rescue", log_dir, "--accept-loss", "--yes")
    assert (0, "Nothing to do.") == (again.status, again.out.splitlines()[0])
    assert "nothing to undo" in call("rescue", log_dir, "--undo", "--yes").out


def test_a_missing_log_that_leads_all_the_same(call: Call, log_dir: Path) -> None:
    """The only replica in sync of a cluster without eligible leader replicas: it is said."""
    change = partition_change(5, 1, {0: int32s([1])})
    path = metadata(log_dir.parent / "metadata", change)
    answer = call("rescue", log_dir, "--accept-loss", "--yes", "--metadata", path)
    assert 0 == answer.status, answer.out
    assert "t-1: by the cluster's metadata this is the only replica in sync" in answer.err


def test_what_was_not_stopped_cleanly_may_lack_logs(call: Call, log_dir: Path) -> None:
    """It is said that this was not looked at."""
    assert NOTHING_LEFT not in call("doctor", log_dir).err
    (log_dir / ".kafka_cleanshutdown").unlink()
    answer = call("doctor", log_dir)
    assert f"{NOTHING_LEFT}{log_dir} has nothing: no broker has stopped cleanly" in answer.err
    assert ABSENT not in answer.out


def test_a_directory_without_ids_is_asked_all_the_same(call: Call, log_dir: Path) -> None:
    """Which topic a log is of needs no node; whether the node has a replica of it does."""
    path = metadata(log_dir.parent / "metadata")
    (log_dir / "meta.properties").write_bytes(b"version=1\nnode.id=\n")
    answer = call("doctor", log_dir, "--metadata", path)
    assert (5, False) == (answer.status, "sets a log aside" in answer.out)
    assert "are missing, if this node has a replica, and 9 of them" in answer.out, answer.out
    (log_dir / "t-0/partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(7)}")
    assert "is unknown to the cluster" in call("doctor", log_dir, "--metadata", path).out


def test_a_log_without_a_topic_id(call: Call, log_dir: Path) -> None:
    """Without metadata, and with one that cannot be read, it is named; with one, as before."""
    (log_dir / "t-0/partition.metadata").unlink()
    without = call("doctor", log_dir)
    assert "no topic id: brokers before 2.8 gave none" in without.out
    assert "Give the cluster's metadata log with --metadata" in without.out
    assert "sets 1 log aside" in without.out
    recovered = call("recover", log_dir, "--yes")
    assert f"{log_dir}: a broker renames t-0 to -stray. `logwright doctor`" in recovered.err
    path = metadata(log_dir.parent / "metadata")
    assert "no topic id, by the metadata up to offset" in call("doctor", log_dir).out
    segment = next(path.glob("*.log"))
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    answer = call("doctor", log_dir)
    assert "its metadata log could not be read" in answer.err
    assert "no topic id: brokers before 2.8 gave none" in answer.out


def test_many_logs_without_a_topic_id(call: Call, log_dir: Path) -> None:
    """A recovery names three, and counts the others."""
    (log_dir / "t-0/partition.metadata").unlink()
    for number in range(2, 6):
        shutil.copytree(log_dir / "t-0", log_dir / f"t-{number}")
    recovered = call("recover", log_dir, "--yes")
    assert "a broker renames t-0, t-2, t-3 and 2 more to -stray." in recovered.err


def test_two_metadata_logs_next_to_it(call: Call, log_dir: Path) -> None:
    """Which one it is, is not known; not that there is none."""
    for name in ("metadata", "copy"):
        metadata(log_dir.parent / name)
    answer = call("doctor", log_dir)
    assert "Give the one in use with --metadata" in answer.err
    assert "none is here" not in answer.err


def test_the_metadata_log_is_next_to_any(call: Call, log_dir: Path) -> None:
    """The first directory's ids are not needed to find it next to the second."""
    other = log_dir.parent / "more"
    metadata(log_dir.parent / "metadata")
    other.mkdir()
    (other / "meta.properties").write_bytes(b"version=1\n")
    answer = call("doctor", other, log_dir)
    assert "whether metadata.log.dir, or else the first of log.dirs, is" in answer.err


def test_who_leads_is_asked_of_the_metadata_that_was_given(call: Call, log_dir: Path) -> None:
    """A recovery that leaves records missing says it by --metadata, or that it does not know."""
    alone = partition_change(5, 0, {0: int32s([1])})
    path = metadata(log_dir.parent.parent / "elsewhere", alone)
    lacking = [TopicPartition("t", 0)]
    assert "is the only replica in sync" in str(elected_anyway(log_dir, lacking, path))
    assert f"Not looked at: {WHO_LEADS}" in str(elected_anyway(log_dir, lacking, None))
    assert elected_anyway(log_dir, [], None) is None
    segment = log_dir / "t-0" / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes()[:-5])
    assert WHO_LEADS in call("doctor", log_dir).err
    assert WHO_LEADS not in call("doctor", log_dir, "--metadata", path).err
    recovered = call("recover", log_dir, "--metadata", path, "--yes")
    assert "is the only replica in sync" in recovered.out, recovered.err
