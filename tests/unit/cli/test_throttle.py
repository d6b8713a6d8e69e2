"""``log.cleaner.io.max.bytes.per.second`` reaches the cleaning, wherever it was set."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.batches import runtime
from logwright.sweep import executor
from tests.log_builder import START_MS, LogBuilder
from tests.unit.cli.conftest import Call

NAME = "log.cleaner.io.max.bytes.per.second"


class Noted(runtime.Throttle):
    """Notes rates, and what they were asked to allow."""

    rates: list[float] = []  # noqa: RUF012 -- of all instances
    bytes: list[int] = []  # noqa: RUF012

    def observe(self, length_bytes: int) -> None:
        """It does not sleep."""
        self.rates.append(self.bytes_per_second)
        self.bytes.append(length_bytes)


@pytest.mark.parametrize("where", ["command line", "defaults", "server.properties", "nowhere"])
def test_the_rate_reaches_the_cleaning(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """All that is read and written is observed at the rate that was set."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("a", "2")])
    log.segment(2).batch(2, [("b", "3")])
    log.write()
    policies = tmp_path / "policies"
    policies.mkdir()
    defaults = f"{{{NAME}: 5000}}" if where == "defaults" else "{}"
    text = f"version: 1\ndefaults: {defaults}\ntopics: [{{name: t, cleanup.policy: compact}}]\n"
    (policies / "all.yml").write_text(text)
    words = {
        "command line": ("--config", f"{NAME}=5000"),
        "server.properties": ("--server-properties", tmp_path / "server.properties"),
    }.get(where, ())
    (tmp_path / "server.properties").write_text(f"{NAME}=5000\n")
    monkeypatch.setattr(executor, "Throttle", Noted)
    Noted.rates.clear()
    Noted.bytes.clear()
    answer = call(
        *("clean", log.log_dir, "--policies", policies, "--high-watermark", "end", "--force"),
        *("--yes", "--now", START_MS, *words),
    )
    assert 0 == answer.status, answer.err
    assert {1.7976931348623157e308 if where == "nowhere" else 5000.0} == set(Noted.rates)
    assert sum(Noted.bytes) > 2 * len(log.segments[0].content)
