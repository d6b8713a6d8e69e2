"""How following a log ends: with its broker, at any moment; with an error if the broker hangs."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from logwright.running import watermark
from tests.running_dirs import running, two_segments
from tests.unit.cli.conftest import Call

READ = 10
"""Records below the high watermark."""


@pytest.mark.parametrize(("recorded", "printed"), [({"t-0": READ}, READ), ({"other-0": 1}, 0)])
def test_it_ends_with_the_broker(
    call: Call, tmp_path: Path, recorded: dict[str, int], printed: int
) -> None:
    """Between two looks, or within one that waits for the log's high watermark."""
    two_segments(tmp_path)
    with ExitStack() as broker:
        broker.enter_context(running(tmp_path, recorded))
        end = threading.Timer(1.0, broker.close)
        end.start()
        answer = call("dump", tmp_path, "--follow")
        end.join()
    assert (0, printed) == (answer.status, len(answer.out.splitlines()))
    assert "the broker ended." in answer.err
    assert "Error" not in answer.err


def test_a_broker_that_records_nothing_is_no_end(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs, and it is not known what it commits."""
    monkeypatch.setattr(watermark, "PATIENCE_SECONDS", 1.0)
    two_segments(tmp_path)
    with running(tmp_path, {"t-0": READ}):
        answer = call("dump", tmp_path, "--follow")
    assert (5, READ) == (answer.status, len(answer.out.splitlines()))
    assert "nothing new can be committed" in answer.err
