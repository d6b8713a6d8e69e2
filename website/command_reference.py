"""The command reference, made of what the command line declares: a page for each command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import click

from logwright.cli.main import main
from logwright.cli.options.common import COMMON
from logwright.cli.options.examples import EXAMPLES
from logwright.cli.statuses import EXIT_STATUSES


def command_pages() -> dict[str, str]:
    """Return the Markdown of each page by the name of its file; README.md lists the commands."""
    contexts = list(_commands(main.make_context("logwright", [], resilient_parsing=True)))
    return {"README.md": _index(contexts)} | {_file(each): _page(each) for each in contexts}


def _commands(context: click.Context) -> Iterator[click.Context]:
    """Yield a context for each command that does something, in the order of the help."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        if inner is not None:
            yield from _commands(click.Context(inner, info_name=name, parent=context))


def _name(context: click.Context) -> str:
    return context.command_path.partition(" ")[2]


def _file(context: click.Context) -> str:
    return f"{_name(context).replace(' ', '-')}.md"


def _index(contexts: Sequence[click.Context]) -> str:
    summaries = [
        f"[`{_name(each)}`]({_file(each)})\n:   {_text(each.command.get_short_help_str(limit=200))}"
        for each in contexts
    ]
    statuses = [f"`{status}`\n:   {_text(meaning)}" for status, meaning in EXIT_STATUSES.items()]
    return "\n\n".join(
        (
            "# Commands",
            _text(main.help or ""),
            *summaries,
            "## Exit status",
            *statuses,
            "The [runbook](../runbook.md#by-exit-status) has what to do.\n",
        )
    )


def _page(context: click.Context) -> str:
    """Return what `logwright COMMAND --help-all` shows."""
    usage = " ".join((context.command_path, *context.command.collect_usage_pieces(context)))
    parts = [f"# {context.command_path}", _text(context.command.help or "")]
    parts += [f"```\n{usage}\n```"]
    own: list[str] = []
    common: list[str] = []
    for parameter in context.command.get_params(context):
        is_option = isinstance(parameter, click.Option)
        record = parameter.get_help_record(context) if is_option else None
        if record is not None:
            is_common = parameter.name in COMMON or "--help" in parameter.opts
            (common if is_common else own).append(f"`{record[0]}`\n:   {_text(record[1])}")
    examples = [f"logwright {_name(context)} {words}" for words in EXAMPLES[_name(context)]]
    parts += ["## Examples", "```sh\n{}\n```".format("\n".join(examples))]
    parts += ["## Options", *own] if own else []
    parts += ["## Common options", *common]
    return "\n\n".join(parts) + "\n"


def _text(words: str) -> str:
    """Return a help text as Markdown: options are code, and its other signs are escaped."""
    paragraphs = (" ".join(lines.split()) for lines in words.split("\n\n"))
    escaped = re.sub(r"([*_<\[\]])", r"\\\1", "\n\n".join(paragraphs))
    return re.sub(r"(?<![\w-])--\w[\w-]*", r"`\g<0>`", escaped)
