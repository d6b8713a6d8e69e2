"""A full file system: what `doctor` says, and what Kafka does there after an unclean stop."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.log_builder import LogBuilder
from tests.oracle_runner import oracle_jvm
from tests.property.accidents import META, NOW_MS
from tests.rights import mounting

pytestmark = [pytest.mark.oracle, pytest.mark.needs_rights("mounting")]

LOGWRIGHT = Path(sys.executable).with_name("logwright")
SCRIPT = """
mkdir "$0/full" && mount -t tmpfs -o size=1m none "$0/full" && cp -r "$0/logs" "$0/full/logs"
cat /dev/zero > "$0/full/fill" 2>/dev/null
"$1" doctor "$0/full/logs" >"$0/said"
shift
"$@" >"$0/answer"
cat "$0/full/logs/t-0/00000000000000000002.log" >"$0/left"
"""


def test_records_are_cut(tmp_path: Path) -> None:
    """Kafka starts, and cuts whole batches that are intact; doctor says not to start it."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.segment(2).batch(2, [("a", "3")]).batch(3, [("b", "4")])
    log.write(producers=True, high_watermark=4)
    (tmp_path / "logs/meta.properties").write_text(META)
    (tmp_path / "logs/.kafka_cleanshutdown").unlink()
    words = mounting()
    assert words is not None
    logs = [str(tmp_path / "full/logs")]
    boot = {"request": "boot", "logDirs": logs, "identity": True, "now": NOW_MS}
    kafka = [*oracle_jvm(), "oracle.Main", "serve"]
    subprocess.run(
        [*words, "sh", "-c", SCRIPT, tmp_path, LOGWRIGHT, *kafka],
        input="".join(f"{json.dumps(each)}\n" for each in (boot, {"request": "quit"})),
        text=True,
        check=True,
    )
    doctor = (tmp_path / "said").read_text()
    assert "A broker does not start" in doctor
    assert "then cuts intact records" in doctor
    whole = (tmp_path / "logs/t-0" / f"{2:020d}.log").stat().st_size
    answer = json.loads((tmp_path / "answer").read_text().splitlines()[0])
    assert 2 == answer["logs"]["t-0"]["endOffset"]
    assert 0 == (tmp_path / "left").stat().st_size < whole
