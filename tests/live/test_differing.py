"""The judge of what an audit claims after an unclean election."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import call
from tests.live.differing import denied, kept
from tests.log_builder import LogBuilder

KEYS = ("a", "b", "c", "d")


def replica(log_dir: Path, *offsets: int, last: str | None = "x") -> Path:
    """A log with one record at each offset; its key is one of four, in turn."""
    builder = LogBuilder(log_dir)
    segment = builder.segment(0)
    for offset in offsets:
        segment.batch(offset, [(KEYS[offset % 4], last if offset == offsets[-1] else "x")])
    builder.segment(10).batch(10, [("z", "x")])
    builder.write(index_interval=1)
    return log_dir


def audit(*log_dirs: Path) -> dict[str, Any]:
    """What the command claims."""
    answer = call("audit", *log_dirs, "--output", "json", "--high-watermark", "end")
    lines = [json.loads(line) for line in answer.out.splitlines() if "topicPartition" in line]
    assert 1 == len(lines)
    line: dict[str, Any] = lines[0]
    return line


def judged(line: dict[str, Any]) -> Counter[str]:
    """Why its claims are denied, if nothing has changed since."""
    return denied("t-0", line, {each["logDir"]: Path(each["logDir"]) for each in line["replicas"]})


@pytest.mark.parametrize(
    ("there", "kind"), [((0, 2, 3), "resurrected key"), ((0, 1, 2, 3), "lost record")]
)
def test_a_key_that_is_not_there(there: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    """Or only an older record of it, as the audit says; and a claim that the bytes deny."""
    first = replica(tmp_path / "a", 0, 1, 2, 3, 5)
    line = audit(first, replica(tmp_path / "b", *there))
    assert {kind: 1} == line["faults"]
    assert not judged(line)
    replica(tmp_path / "b2", 0, 1, 2, 3, 5)
    line["findings"][0]["otherLogDir" if kind == "resurrected key" else "logDir"] = f"{tmp_path}/b2"
    for each in line["replicas"]:
        each["logDir"] = each["logDir"].replace("/b", "/b2")
    assert {f"{kind}: the other has one as late": 1} == judged(line)


def test_a_tombstone_that_is_not_there(tmp_path: Path) -> None:
    """The replica with the value lacks it."""
    line = audit(replica(tmp_path / "a", 0, 1), replica(tmp_path / "b", 0, 1, 5, last=None))
    assert {"resurrected key": 1} == line["faults"]
    assert not judged(line)


def test_another_fault(tmp_path: Path) -> None:
    """What an election does not explain."""
    line = audit(replica(tmp_path / "a", 0, 1, 2), replica(tmp_path / "b", 0, 1, 2, last="y"))
    assert {"diverged offset": 1} == line["faults"]
    assert {"diverged offset": 1} == judged(line)


def test_what_is_cleaned_meanwhile(tmp_path: Path) -> None:
    """It was there when the audit looked at it."""
    log_dirs = [replica(tmp_path / "a", 0, 1, 2), replica(tmp_path / "b", 0, 2)]
    with kept(log_dirs, "t-0", tmp_path / "kept") as before:
        line = audit(*log_dirs)
        for path in (log_dirs[0] / "t-0").glob("*.log"):
            path.unlink()
        assert {"resurrected key": 1} == line["faults"]
        assert not denied("t-0", line, before)
        assert {"resurrected key: the record is not there": 1} == judged(line)
    assert not (tmp_path / "kept").exists()
