"""The options of ``logwright policies``."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.cli.options.common import Command
from logwright.cli.options.parameters import POLICIES_VARIABLE, output_option


@click.group(name="policies")
def command() -> None:
    """Work with the policies: YAML files with settings per topic."""


@command.command("check", cls=Command, module="policies")
@click.argument(
    "directory",
    metavar="[DIR]",
    required=False,
    envvar=POLICIES_VARIABLE,
    type=click.Path(path_type=Path, readable=False),
)
@output_option
def check() -> None:
    """Check all policies of DIR and print one line per problem, with file:line:column; exit status
    2 if there is any.

    Settings without effect are warnings. DIR is by default what Dagster uses: LOGWRIGHT_POLICIES,
    else the examples of the package.
    """
