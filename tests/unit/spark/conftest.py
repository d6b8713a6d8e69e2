"""What tests of streams share."""

from __future__ import annotations

import pytest

from logwright.spark import kafka_log_seen


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a log to settle gives up soon."""
    monkeypatch.setattr(kafka_log_seen, "ATTEMPTS", 3)
    monkeypatch.setattr(kafka_log_seen, "PAUSE_SECONDS", 0)
