"""``logwright COMMAND LOG_DIR [TOPIC-N ...]``: the entry point.

The options of a command are imported when it is named, and what it does when it is called, so that
``--help`` starts fast.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import Final

import click

from logwright.cli.interrupts import terminated_like_interrupted
from logwright.cli.log_lines import say, say_error
from logwright.cli.statuses import EXIT_STATUSES, STOPPED
from logwright.cli.streams import printable
from logwright.credentials import without_credentials
from logwright.errors import LogwrightError

_COMMANDS: Final = MappingProxyType(
    {
        "inspect": "Show segments, sizes, offsets, checkpoints, leftovers and the lock.",
        "dump": "Print every batch, record, index entry and snapshot as JSON lines.",
        "config": "Show the effective settings of topics and where each comes from.",
        "policies": "Check the policies: YAML files with settings per topic.",
        "plan": "Show what is due, when and why.",
        "maintain": "Compact, delete old segments and purge, each whatever the others end with.",
        "clean": "Compact: roll if due, dedupe, check, swap, checkpoint.",
        "roll": "Roll active segments that are due.",
        "retain": "Delete old segments by log start offset, retention.bytes and retention.ms.",
        "delete": "Delete whole logs, as Kafka does when a topic is deleted.",
        "undo": "Revert the last compaction, retention or deletion of a log.",
        "recover": "Repair logs after a crash: leftovers, torn tails, missing indexes.",
        "offsets": "Show why __consumer_offsets and __transaction_state grow, and what to do.",
        "doctor": "Show whether a broker starts on its log directories, and what it loses.",
        "quorum": "Show what is left of a cluster's metadata, and write a controller's directory.",
        "rescue": "Do what doctor says, so that a broker starts; or free a full disk.",
        "verify": "Check every batch, index entry and checkpoint, or compare two directories.",
        "audit": "Compare what the replicas in several log directories serve.",
        "ingest": "Append rows from files to a topic, each file once.",
        "archive": "Copy a topic from a running broker, keeping its offsets.",
        "upload": "Write logs into a bucket as they are, and only what is new.",
        "download": "Write logs from a bucket into a log directory, for a broker to open.",
        "latest": "Write the latest state of a topic, now or in the past, to a table.",
        "find": "Find every record of some keys in every file, and when each is gone.",
        "certificate": "Search for erased keys and sign what was found, and every file seen.",
        "verify-certificate": "Check a certificate, and what changed since it was made.",
        "purge": "Remove retired files whose file.delete.delay.ms has passed.",
        "erase": "Erase the records of keys, by Kafka's rules or at once.",
        "move": "Move partitions to another log directory of the same broker.",
        "rolling": "Maintain the brokers of a running cluster, one after another.",
        "metrics": "Export metrics of log directories for Prometheus.",
        "pause": "Pause maintenance of partitions.",
        "resume": "Resume maintenance of paused partitions.",
        "quarantine": "Show, set or clear the quarantine of partitions that cannot be cleaned.",
        "demo": "Create a sample log directory and maintain it with Dagster.",
    }
)
"""Name → summary. `logwright.cli.options` has a module of that name, which declares it as
``command``, and `logwright.cli.run` one with what it does, as ``run``."""


class _Commands(click.Group):
    """Imports a command when it is called, and turns errors into messages and exit statuses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"logwright.cli.options.{name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown command, and name those that are spelled like it."""
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            import difflib  # noqa: PLC0415 -- only for a wrong call

            near = difflib.get_close_matches(name, _COMMANDS)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Exit status"):
            formatter.write_dl([(str(status), text) for status, text in EXIT_STATUSES.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            with terminated_like_interrupted():
                return super().invoke(ctx)
        except LogwrightError as error:
            say_error(error, exit_status=error.exit_status)
            ctx.exit(error.exit_status)
        except click.ClickException as error:
            error.message = printable(without_credentials(error.message))  # type: ignore[misc]  # of the words it has
            raise
        except (KeyboardInterrupt, click.Abort) as stop:
            message = " ".join(("interrupted.", *getattr(stop, "__notes__", ())))
            say("error", message, error="KeyboardInterrupt", exit_status=STOPPED)
            ctx.exit(STOPPED)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="logwright")
def main() -> None:
    """Maintain Apache Kafka log segments offline.

    LOG_DIR is a log directory of a stopped broker, or its copy in a bucket (s3://, gs://, az://,
    file://); commands that read work next to a running broker, too. Without TOPIC-N a command works
    on all its partitions.
    """
