"""Reads Spark's event log: which job had which tasks, and what became of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task of a job's last stage: the stages before it only spread the rows.

    Attributes:
        run_ms: how long the executor ran it; 0 of one that was canceled before it began.
    """

    job: int
    succeeded: bool
    run_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLog:
    """What a session did so far, or in all.

    Attributes:
        jobs: number of each job and the line of logwright that started it, in the order of jobs.
        failed_jobs: numbers of those that did not succeed.
        tasks: in the order of their ends.
    """

    jobs: dict[int, str]
    failed_jobs: frozenset[int]
    tasks: tuple[Task, ...]

    def tasks_of(self, job: int) -> list[Task]:
        """The tasks of one job."""
        return [task for task in self.tasks if task.job == job]


def read_event_log(path: Path) -> EventLog:
    """The events of one session, also of one that still runs."""
    jobs: dict[int, str] = {}
    failed: set[int] = set()
    job_of_stage: dict[int, int] = {}
    tasks: list[Task] = []
    for event in _events(path):
        if event["Event"] == "SparkListenerJobStart":
            jobs[event["Job ID"]] = event["Stage Infos"][-1]["Stage Name"]
            job_of_stage |= dict.fromkeys(event["Stage IDs"], event["Job ID"])
        elif event["Event"] == "SparkListenerJobEnd":
            if event["Job Result"]["Result"] != "JobSucceeded":
                failed.add(event["Job ID"])
        elif event["Event"] == "SparkListenerTaskEnd" and event["Task Type"] == "ResultTask":
            tasks.append(
                Task(
                    job=job_of_stage[event["Stage ID"]],
                    succeeded=event["Task End Reason"]["Reason"] == "Success",
                    run_ms=event.get("Task Metrics", {}).get("Executor Run Time", 0),
                )
            )
    return EventLog(jobs=jobs, failed_jobs=frozenset(failed), tasks=tuple(tasks))


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        yield json.loads(line)
