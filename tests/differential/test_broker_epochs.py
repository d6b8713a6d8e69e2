"""The broker epoch that Kafka reads from the markers of a clean stop, for the controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.steps.marker import UNKNOWN_EPOCH
from tests.differential import oracle_server
from tests.log_builder import LogBuilder

pytestmark = pytest.mark.oracle

NONE = b'{"version":0,"brokerEpoch":-1}'
KNOWN = b'{"version":0,"brokerEpoch":17}'
NOW_MS = 1_760_000_000_000


def epoch_of(tmp_path: Path, *markers: bytes) -> int:
    """What goes to the controller of directories with these markers, in this order."""
    log_dirs = []
    for number, marker in enumerate(markers):
        log = LogBuilder(tmp_path / str(number), f"t-{number}")
        log.segment(0).batch(0, [("a", "1")])
        log.write()
        (log.log_dir / ".kafka_cleanshutdown").write_bytes(marker)
        log_dirs.append(str(log.log_dir))
    answer = oracle_server.shared().ask({"request": "boot", "logDirs": log_dirs, "now": NOW_MS})
    assert "bootFailed" not in answer, answer
    epoch: int = answer["brokerEpoch"]
    return epoch


@pytest.mark.usefixtures("kafka_version")
@pytest.mark.parametrize(
    ("markers", "epoch"),
    [
        ((KNOWN,), 17),
        ((KNOWN, KNOWN), 17),
        ((UNKNOWN_EPOCH,), -1),
        ((UNKNOWN_EPOCH, KNOWN), -1),
        ((KNOWN, UNKNOWN_EPOCH), -1),
        ((KNOWN, NONE), -1),
        ((NONE, KNOWN), 17),
    ],
)
def test_one_directory_without_an_epoch_is_enough(
    tmp_path: Path, markers: tuple[bytes, ...], epoch: int
) -> None:
    """Whatever its place among the directories; a written -1 that comes first is ignored."""
    assert epoch == epoch_of(tmp_path, *markers)
