"""Long work shows how far it is, on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.log_builder import LogBuilder

CLEAN = "from logwright.cli.main import main; main()"


def test_many_small_logs_share_a_progress_bar(tmp_path: Path) -> None:
    """They are cleaned in groups, each too quick for a bar of its own."""
    for number in range(20):
        log = LogBuilder(tmp_path / "logs", f"t-{number}")
        log.segment(0).batch(0, [("a", "1"), ("a", "2")])
        log.segment(2)
        log.write()
    terminal, stderr = os.openpty()
    arguments = ["--yes", "--force", "--config", "cleanup.policy=compact", "--no-metadata"]
    with os.fdopen(terminal, "rb", buffering=0) as shown, os.fdopen(stderr, "wb") as given:
        subprocess.run(
            [sys.executable, "-c", CLEAN, "clean", str(tmp_path / "logs"), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=given,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
            check=True,
        )
        os.set_blocking(shown.fileno(), False)
        seen = shown.read(65536)
    assert b"20 logs clean" in seen
