"""``logwright COMMAND LOG_DIR [TOPIC-N ...]``: the entry point.

Commands are imported when they are called: ``logwright --help`` needs none of what they need.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import Final

import click

from logwright.errors import LogwrightError

_COMMANDS: Final = MappingProxyType(
    {
        "inspect": "What is there: segments, sizes, offsets, checkpoints, leftovers, lock.",
        "dump": "Every batch and record, index entry and snapshot, as JSON lines.",
        "config": "The effective settings of topics, and what set each.",
        "plan": "What is due, when, why or why not.",
        "clean": "Compact: roll if due, dedupe, check, swap, checkpoint.",
        "roll": "Begin a new active segment where it is due.",
        "retain": "Delete old segments: log start offset, retention.bytes, retention.ms.",
        "delete": "Delete whole logs, as Kafka does of a deleted topic.",
        "undo": "Bring back what the last compaction, retention or deletion took away.",
        "recover": "Repair what a crash left: leftovers, torn tails, missing indexes.",
        "verify": "Check every batch, index entry, checkpoint and snapshot; or two directories.",
        "ingest": "Append rows of files to a topic, each file once.",
        "archive": "Copy a topic of a running broker, offsets as they are.",
        "purge": "Unlink what was renamed to .deleted long enough ago.",
        "move": "To another log directory of the same broker.",
        "pause": "Leave partitions alone for a while, durably.",
        "resume": "Lift pauses.",
        "quarantine": "Partitions that cannot be cleaned: show, set, clear.",
        "demo": "A log directory to try it all on.",
    }
)
"""Name → summary. A command is ``command`` of the module of its name in this package."""


class _Commands(click.Group):
    """Imports a command when it is called, and turns errors into messages and exit statuses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"logwright.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except LogwrightError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(error.exit_status)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="logwright")
def main() -> None:
    """Maintain Apache Kafka log segments offline.

    LOG_DIR is a log directory of a stopped broker; without TOPIC-N all its partitions are meant.
    Exit status: 0 done, also when there was nothing to do; 2 usage and settings; 3 corrupt data;
    4 unsupported format; 5 the directory is not as it must be; 6 the output failed a check; 7 a
    step failed.
    """
