"""``logwright maintain``: `clean`, `retain` and `purge`, one after another, whatever each ends
with. What they do is theirs; here is only their order, and what is made of their exit statuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Unpack

import click

from logwright.cli.failures import FailureLog
from logwright.cli.log_lines import say
from logwright.cli.options.clean import USUAL_SPLIT_BYTES
from logwright.cli.options.maintain import Given
from logwright.cli.request import Request
from logwright.cli.run import clean, retain
from logwright.cli.run.purge import purge
from logwright.cli.statuses import worst
from logwright.errors import LogwrightError

Act = Callable[[Request], None]


def run(request: Request, **given: Unpack[Given]) -> int:
    """Run the command; return the worst exit status of all steps in all log directories."""
    requests = [request.of(place) for place in (request.place, *given["more_dirs"])]
    for each in requests:
        each.require_terminal(versioned=True)
    return worst([_maintain(each, _steps(given)) for each in requests])


def _steps(given: Given) -> dict[str, Act]:
    """Return the commands that are run, by name, in their order. The purge leaves logs that are in
    quarantine, among them those that the cleaning found corrupt: their retired files may have
    good copies (docs/runbook.md).
    """
    cleaning = partial(
        clean.run,
        like_kafka=False,
        retain=False,
        force=False,
        dedupe_buffer=None,
        passes=1,
        checks=None,
        threads=given["threads"],
        replicas=given["replicas"],
        scratch=given["scratch"],
        spark_master=given["spark_master"],
        split_bytes=USUAL_SPLIT_BYTES,
    )
    retention = partial(
        retain.run,
        delete_records_before=None,
        force=False,
        like_kafka=False,
        scratch=given["scratch"],
    )
    return {"clean": cleaning, "retain": retention, "purge": partial(purge, quarantined=False)}


def _maintain(request: Request, steps: dict[str, Act]) -> int:
    """Run all steps on one log directory, and return the worst exit status. Effects: theirs;
    output.
    """
    statuses = {name: _status(request, name, act) for name, act in steps.items()}
    status = worst(statuses.values())
    each = ", ".join(f"{name} {number}" for name, number in statuses.items())
    request.output.result(
        f"{request.place}: exit status {status} ({each})",
        logDirectory=str(request.place),
        now=request.now_ms,
        dryRun=request.dry_run,
        exitStatus=status,
        steps=[{"command": name, "exitStatus": number} for name, number in statuses.items()],
    )
    return status


def _status(request: Request, name: str, act: Act) -> int:
    """Run one step, and return its exit status. Its objects of JSON begin with its name. Effects:
    its own; output.

    Raises:
        KeyboardInterrupt, click.Abort: the operator ends the whole command.
        InvariantError: as every other bug it ends the command: nothing else should run.
    """
    output = replace(request.output, begins={"command": name, "logDirectory": str(request.place)})
    output.message(f"{name} of {request.place}")
    request.changed.clear()
    step = replace(request.of(request.place), output=output, failures=FailureLog(output=output))
    try:
        act(step)
    except LogwrightError as error:
        kind, status = type(error).__name__, error.exit_status
        say("error", f"{name}: {error}", error=kind, exit_status=status)
        output.error_object(error)
        return worst((status, step.failures.exit_status))
    except click.exceptions.Exit as declined:
        return declined.exit_code
    except (KeyboardInterrupt, click.Abort) as stop:
        stop.add_note(f"It was in `{name}` of {request.place}.")
        raise
    return step.failures.exit_status
