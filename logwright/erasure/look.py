"""Search one log directory with the settings of its topics, as a command or a run has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from logwright.config.sources import DirectorySettings
from logwright.erasure.find.model import Finding
from logwright.erasure.find.search import Settings, search_log_dir
from logwright.erasure.keys import KeySet
from logwright.units import TimestampMs

Report = Callable[[str, int, int], None]
"""Called with (stage, bytes done, total bytes)."""


def look_for(
    log_dir: Path,
    keys: KeySet,
    settings: DirectorySettings,
    *,
    now_ms: TimestampMs,
    report: Report | None = None,
) -> tuple[list[Finding], dict[str, str]]:
    """Return the findings, and path → why of what could not be searched. Effects: reads all files
    of the directory.

    Raises:
        LogDirLocked: a broker runs on it.
        StalePlan: its files change all the time.
        LogwrightError: it cannot be listed, or its settings are invalid.
    """
    found = search_log_dir(
        log_dir,
        keys,
        Settings(
            of_topic=lambda topic: settings.of(log_dir, topic),
            broker=settings.broker(log_dir),
            now_ms=now_ms,
            high_watermark=settings.policies.high_watermark,
        ),
        progress=report or _silent,
    )
    return [_of_requests(one, len(keys)) for one in found.findings], {
        one.path: one.problem for one in found.unsearched
    }


def _of_requests(finding: Finding, requests: int) -> Finding:
    """Return a finding with -1 for the request if it is a byte pattern's."""
    return finding if 0 <= finding.request < requests else replace(finding, request=-1)


def _silent(stage: str, done: int, total: int) -> None:
    del stage, done, total
