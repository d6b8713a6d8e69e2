"""Run a command: with a request, or only an output, and the values of its own options."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import click
from click.core import ParameterSource

from logwright.cli.log_lines import log_to_stderr
from logwright.cli.options.parameters import POLICIES_VARIABLE, Running
from logwright.cli.output import Output
from logwright.cli.request import Given, Request, request_of
from logwright.cli.run.running import as_they_run, report_bounds, report_tier, with_their_tier
from logwright.errors import LogwrightError
from logwright.extras import require
from logwright.place.model import Place

_MOST_NAMED: Final = 8
"""Completed partitions that are named; of others the count is given."""

Run = Callable[..., int | None]
"""What a command does; returns its exit status if no partition failed, None for 0."""


def call(
    module: str, given: dict[str, Any], *, extra: str | None, running: Running | None = None
) -> None:
    """Run a command. Effects: its own; logging; exits with its status, unless that is 0.

    Args:
        module: the name of its module, which has the function `run`.
        given: the values of its options. With ``log_dir`` it is called with a `Request`, else with
            an `Output`; with what is left of the values as keywords.
        extra: the extra that it needs.
        running: how it reads log directories that a broker has open; None: it does not.

    Raises:
        LogwrightError: the command failed; written as JSON where that is the output.
    """
    verbose = given.pop("verbose", False)
    output = Output(form=given.pop("form", "text"), verbose=verbose)
    log_to_stderr(verbose=verbose, form=given.pop("log_format", "text"))
    _say_whose_policies(output, given)
    request: Request | None = None
    places: tuple[Place, ...] = ()
    try:
        if extra is not None:
            require(extra, by=f"logwright {click.get_current_context().command.name}")
        if running is not None:
            given, places = as_they_run(given, running)
            given = with_their_tier(given, running)
        run: Run = importlib.import_module(f"logwright.cli.run.{module}").run
        if "log_dir" in given:
            own = {name: given[name] for name in given if name not in Given.__annotations__}
            request = request_of(cast("Given", given), output)
            status = run(request, **own) or 0
            status = request.failures.exit_status or status
        else:
            status = run(output, **given) or 0
    except LogwrightError as error:
        output.error_object(error)
        raise
    except (KeyboardInterrupt, click.Abort) as stop:
        if "log_dir" in given:
            stop.add_note(completed(request, changes="yes" in given))
        raise
    finally:
        report_bounds(output, places)
        report_tier(output, given.get("log_dir"))
    if status:
        click.get_current_context().exit(status)


def _say_whose_policies(output: Output, given: Mapping[str, object]) -> None:
    """Say that the environment names the policies. Effects: stderr."""
    source = click.get_current_context().get_parameter_source("policies_dir")
    if source is ParameterSource.ENVIRONMENT:
        output.message(f"The policies are those of {POLICIES_VARIABLE}: {given['policies_dir']}")


def completed(request: Request | None, *, changes: bool) -> str:
    """Return what an interrupted command has done.

    Args:
        request: None if it had not begun.
        changes: it is a command that changes logs.
    """
    if request is None or not changes:
        return "No log was changed."
    names = [str(partition) for partition in request.changed]
    if not names:
        return "No log is known to be complete. Run it again."
    more = len(names) - _MOST_NAMED
    named = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"Complete: {len(names)} logs: {named}. Run it again for the rest."
