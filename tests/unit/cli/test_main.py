"""The entry point: fast help, commands, options anywhere, exit statuses."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import click
import pytest

from logwright.cli.main import main
from logwright.cli.options.common import Command
from logwright.cli.request import Given
from tests.fixtures import case_dir, settings
from tests.unit.cli.conftest import Call

HEAVY = ("numba", "numpy", "pyspark", "dagster", "pandas", "pydantic", "yaml", "rich")
LOOK_UP = {"archive", "ingest", "latest"}
"""Their help names formats of tables, or codecs."""
COMMANDS = main.list_commands(click.Context(main))


def imported_by(*words: str) -> set[str]:
    """The modules that a call of the command line imports in a process of its own, without those
    of Python itself.
    """
    script = (
        "import sys\nbefore = set(sys.modules)\nfrom logwright.cli.main import main\n"
        f"main({list(words)!r}, standalone_mode=False)\n"
        "print(*(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert "Usage:" in done.stdout
    modules = set(done.stdout.splitlines()[-1].split())
    return {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names}


def test_help_imports_next_to_nothing() -> None:
    """Of logwright the list of commands, of others click: so it answers in a tenth of a second."""
    modules = imported_by("--help")
    own = {name for name in modules if name.partition(".")[0] == "logwright"}
    assert {"click"} == {name.partition(".")[0] for name in modules - own}
    assert {
        "logwright",
        "logwright.cli",
        "logwright.cli.interrupts",
        "logwright.cli.log_lines",
        "logwright.cli.main",
        "logwright.cli.statuses",
        "logwright.cli.streams",
        "logwright.credentials",
        "logwright.errors",
    } == own


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - LOOK_UP))
def test_help_of_a_command_imports_its_options(name: str) -> None:
    """And neither the engine nor a library of it."""
    modules = imported_by(name, "--help")
    assert {"click", "logwright"} == {name.partition(".")[0] for name in modules}
    parts = {name.split(".")[1] for name in modules if name.startswith("logwright.")}
    assert {"cli", "config", "credentials", "errors", "format", "times", "units"} == parts
    assert not [name for name in modules if name.startswith("logwright.cli.run")]


@pytest.mark.parametrize("name", sorted(LOOK_UP))
def test_options_load_nothing_heavy(name: str) -> None:
    """Those that look up formats or codecs for their help do so when it is asked for."""
    script = (
        "import importlib, sys\n"
        f"importlib.import_module('logwright.cli.options.{name}')\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert ["[]"] == done.stdout.splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_what_it_declares(name: str) -> None:
    """`run` has a parameter for each option and argument of its own, and no other."""
    command = main.get_command(click.Context(main), name)
    if isinstance(command, click.Group):
        (command,) = command.commands.values()
    assert isinstance(command, Command)
    declared = {one.name for one in command.params if one.expose_value}
    run = importlib.import_module(f"logwright.cli.run.{command.module}").run
    first, *own = inspect.signature(run).parameters.values()
    shared = {"form", "log_format", "verbose"} | ({"throttle"} if command.running else set())
    if "log_dir" in declared:
        shared |= set(Given.__annotations__)
    if command.running is not None:  # a search gets the tier; to the others it is of the place
        shared |= {"tier_key"} if command.running == "whole" else {"tier", "tier_key"}
    taken = {one.name for one in own if one.kind is not inspect.Parameter.VAR_KEYWORD}
    if (options := vars(inspect.getmodule(run)).get("Given")) is not None:
        taken |= set(options.__annotations__)
    assert ("request" if "log_dir" in declared else "output") == first.name
    assert declared - shared == taken


@pytest.mark.parametrize("command", ["inspect", "dump", "plan", "clean", "purge", "demo"])
def test_each_command_has_help(call: Call, command: str) -> None:
    """Every command explains itself; all but the demo have the common options."""
    answer = call(command, "--help")
    assert answer.status == 0
    if command != "demo":
        for option in ("--config", "--policies", "--now", "--high-watermark"):
            assert option in answer.out
        assert ("--engine" in answer.out) == (command == "clean")
        assert ("--like-kafka" in answer.out) == (command in {"plan", "clean"})


def test_every_command_accepts_the_engine(call: Call) -> None:
    """Scripts may give the common options to any command; one that does not use it ignores it."""
    log_dir = case_dir("basic-none") / "before"
    assert call("inspect", log_dir).out == call("inspect", log_dir, "--engine", "spark").out


@pytest.mark.parametrize("command", ["retain", "roll", "x"])
def test_commands_not_built_do_not_exist(call: Call, command: str) -> None:
    """Only what can be done is a command."""
    assert call(command, ".").status == 2


def test_options_before_and_after(call: Call) -> None:
    """Options may stand before or after the positionals."""
    log_dir = case_dir("basic-none") / "before"
    before = call("inspect", "--output", "json", "--config", "segment.ms=5", log_dir, "t-0")
    after = call("inspect", log_dir, "t-0", "--config", "segment.ms=5", "--output", "json")
    between = call("inspect", "--output", "json", log_dir, "--config", "segment.ms=5", "t-0/")
    assert before.status == 0
    assert before.out
    assert before.out == after.out == between.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--config", "retention.mss=1"], "'retention.ms'"),
        (["--config", "segment.ms=0"], "segment.ms=0"),
        (["--config", "cleanup.policy=dedupe"], "compact"),
        (["--config", "remote.storage.enable=true"], "remote.storage.enable"),
        (["--config", "min.compaction.lag.ms=2", "--config", "max.compaction.lag.ms=1"], "above"),
        (["--config", "novalue"], "KEY=VALUE"),
        (["--config", "=1"], "KEY=VALUE"),
        (["--now", "-1"], "--now"),
        (["--now", "9223372036854775808"], "--now"),
        (["--now", "soon"], "--now"),
        (["--high-watermark", "top"], "--high-watermark"),
        (["--engine", "flink"], "--engine"),
        (["--output", "yaml"], "--output"),
        (["t"], "TOPIC-N"),
        (["--policies", "/nonexistent"], "not a directory of policies"),
        (["--frce"], "--frce"),
    ],
)
def test_usage_and_settings_exit_2(call: Call, words: list[str], expected: str) -> None:
    """A wrong call or setting is refused with status 2, and says what was meant or valid."""
    answer = call("inspect", case_dir("basic-none") / "before", *words)
    assert answer.status == 2
    assert expected in answer.err
    assert answer.out == ""


def test_values_with_commas_and_equals_signs(call: Call) -> None:
    """The value of --config is everything after the first equals sign."""
    log_dir = case_dir("basic-none") / "before"
    assert call("inspect", log_dir, "--config", "cleanup.policy=compact,delete").status == 0
    assert call("inspect", log_dir, "--config", "log.dir=/a=b,c").status == 0


def test_inert_config_is_mentioned_on_demand(call: Call) -> None:
    """A known key without effect is a debug line: on stderr, if it is asked for."""
    words = ["plan", case_dir("basic-none") / "before", "--no-forecast", "--config", "flush.ms=1"]
    assert "flush.ms" not in call(*words).err
    assert "flush.ms" in call(*words, "--verbose").err


def test_a_missing_directory_exits_5(call: Call, tmp_path: Path) -> None:
    """A path without a log directory, or without the partition, is refused with its error class."""
    assert call("inspect", tmp_path / "absent").status == 5
    assert call("inspect", tmp_path).status == 5
    answer = call("plan", case_dir("basic-none") / "before", "absent-7")
    assert answer.status == 5
    assert "absent-7" in answer.err


def test_policies_and_config(call: Call, tmp_path: Path) -> None:
    """--config wins over --policies, also under another name of the same config."""
    (tmp_path / "p.yml").write_text(
        "version: 1\ntopics: [{name: t, cleanup.policy: compact, segment.ms: 5}]\n"
    )
    words = ["plan", case_dir("basic-none") / "before", "--policies", tmp_path, "--output", "json"]
    words += ["--no-forecast"]
    assert call(*words).lines[0]["compact"]
    assert not call(*words, "--config", "cleanup.policy=delete").lines[0]["compact"]
    assert not call(*words, "--config", "log.cleanup.policy=delete").lines[0]["compact"]
    (tmp_path / "q.yml").write_text("version: 1\nsweep: {max_log: 1}\n")
    answer = call(*words)
    assert answer.status == 2
    assert f"{tmp_path}/q.yml:2:9" in answer.err


def test_small_segment_bytes_is_warned_of_once(call: Call) -> None:
    """segment.bytes under a broker's minimum is taken as internal.segment.bytes, with one line."""
    words = [*settings("basic-none"), "--no-forecast"]
    answer = call("plan", case_dir("basic-none") / "before", *words)
    assert answer.status == 0
    assert answer.err.count("internal.segment.bytes") == 1
