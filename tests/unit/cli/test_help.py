"""Help: short, with the common options in a group of their own and examples that work."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from logwright.cli.main import main
from logwright.cli.options.examples import EXAMPLES
from tests.log_builder import LogBuilder
from tests.quorum_worlds import make_log, write_node

NAMES = tuple(main.list_commands(click.Context(main)))
ROOT = Path(__file__).parents[3]
MOST_LINES = 40
MOST_EXAMPLES = 3
NEEDS_MORE = {"demo", "rolling"}
"""Run by tests/e2e/test_demo.py, since it starts Dagster, and by tests/e2e/test_rolling.py, since
it needs a cluster."""
FOUND = {
    "doctor": {5},
    "rescue": {5},
    "find": {8, 10},
    "erase": {0, 8, 9},
    "certificate": {0, 6},
    "verify-certificate": {0, 6},
}
"""Exit statuses other than 0, which say what is in the logs, and whether a broker starts."""
POLICY = "version: 1\ntopics: [{name: orders, cleanup.policy: 'compact,delete'}]\n"


def help_of(name: str) -> list[str]:
    answer = CliRunner().invoke(main, [*name.split(), "--help"], terminal_width=80)
    assert 0 == answer.exit_code
    return answer.stdout.splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_help_fits_on_a_screen(name: str) -> None:
    """Of each command, at 80 columns."""
    assert len(help_of(name)) < MOST_LINES


def test_common_options_are_a_group() -> None:
    """Below the command's own, by name; --help-all explains them."""
    lines = help_of("plan")
    own, common = lines.index("Options:"), lines.index("Common options:")
    assert any("--forecast" in line for line in lines[own:common])
    assert not any("--metadata" in line for line in lines[own:common])
    assert any("--metadata DIR" in line for line in lines[common:])
    explained = CliRunner().invoke(main, ["plan", "--help-all"], terminal_width=80).stdout
    assert "The broker's server.properties." in explained
    assert "The broker's server.properties." not in "\n".join(lines)


def test_every_command_has_examples() -> None:
    """One to three, shown in its help as they are typed."""
    commands = {name for name in NAMES if name != "policies"} | {"policies check"}
    assert commands == set(EXAMPLES)
    for name, examples in EXAMPLES.items():
        assert 1 <= len(examples) <= MOST_EXAMPLES
        shown = help_of(name)
        assert all(f"  logwright {name} {words}" in shown for words in examples)


def numbered() -> Iterator[tuple[str, int]]:
    for name, lines in EXAMPLES.items():
        if name not in NEEDS_MORE:
            yield from ((name, number) for number in range(len(lines)))


def run(root: Path, words: str) -> int:
    typed = words.replace("/kafka/", f"{root}/kafka/").replace("/backup/", f"{root}/backup/")
    answer = CliRunner().invoke(main, shlex.split(typed))
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer.exit_code


@pytest.mark.parametrize(("name", "number"), tuple(numbered()))
def test_examples_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    """Each does what it says, in a directory with the files that it names."""
    log = LogBuilder(tmp_path / "kafka" / "data", "orders-0")
    log.segment(0).batch(0, [("a", "1"), ("b", "1"), ("a", "2")])
    log.segment(3).batch(3, [("b", "2")])
    log.segment(4).batch(4, [("c", "1")])
    log.write()
    assert 0 == run(tmp_path, "roll /kafka/data --force --yes")  # with a producer snapshot
    world = make_log(random.Random(1), kraft_version=0)
    for node, directory in ((1, "controller"), (11, "broker")):
        write_node(world, tmp_path / "kafka" / directory, node, world.log)
    shutil.copytree(tmp_path / "kafka" / "data", tmp_path / "backup" / "data")
    offsets = LogBuilder(tmp_path / "kafka" / "offsets", "__consumer_offsets-0")
    offsets.segment(0).batch(0, [(b"\x00\x01\x00\x01a\x00\x01t\x00\x00\x00\x00", None)])
    offsets.write()
    (tmp_path / "kafka" / "data2").mkdir()
    (tmp_path / "kafka" / "data2" / "meta.properties").write_text("version=1\n")
    monkeypatch.chdir(tmp_path)
    Path("policies").mkdir()
    Path("policies/topics.yml").write_text(POLICY)
    Path("keys.txt").write_text("a\n")
    Path("patterns.txt").write_text("customer-1001\n")
    Path("orders.json").write_text('{"key": "a", "value": "3"}\n')
    if name == "undo":
        retain = "--config cleanup.policy=delete --config retention.ms=1 --yes"
        assert 0 == run(tmp_path, f"retain /kafka/data {retain}")
    if name == "download":
        assert 0 == run(tmp_path, f"upload {EXAMPLES['upload'][0]}")
    if name in {"certificate", "verify-certificate"} and (name, number) != ("certificate", 0):
        assert 0 == run(tmp_path, f"certificate {EXAMPLES['certificate'][0]}")
    if name == "verify-certificate":
        run(tmp_path, f"certificate {EXAMPLES['certificate'][1]}")
    assert run(tmp_path, f"{name} {EXAMPLES[name][number]}") in FOUND.get(name, set()) | {0}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("logwright ver", {"verify", "verify-certificate"}),
        ("logwright plan --high", {"--high-watermark"}),
        ("logwright plan --high-watermark ", {"end", "checkpoint", "recorded"}),
        ("logwright plan --output j", {"json"}),
    ],
)
def test_bash_completes(typed: str, expected: set[str]) -> None:
    """In a shell with the line of docs/installing.md: commands, options and their values."""
    *words, last = typed.split(" ")
    line = 'eval "$(_LOGWRIGHT_COMPLETE=bash_source logwright)"'
    assert f"`{line}`" in (ROOT / "docs/installing.md").read_text()
    script = (
        f"{line}\nCOMP_WORDS=({shlex.join([*words, last])}) COMP_CWORD={len(words)}\n"
        "_logwright_completion logwright\nprintf '%s\\n' \"${COMPREPLY[@]}\""
    )
    shown = subprocess.run(
        [shutil.which("bash") or "bash is not installed", "-c", script],
        env=dict(os.environ) | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert expected == set(shown.stdout.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    """That of which docs/installing.md has the line; it asks for candidates by the same name."""
    assert f"_LOGWRIGHT_COMPLETE={shell}_source logwright" in (
        ROOT / "docs/installing.md"
    ).read_text(encoding="utf-8")
    monkeypatch.setenv("_LOGWRIGHT_COMPLETE", f"{shell}_source")
    script = CliRunner().invoke(main, prog_name="logwright").stdout
    assert f"_LOGWRIGHT_COMPLETE={shell}_complete" in script


@pytest.mark.parametrize(
    ("typed", "expected"), [("ver", {"verify", "verify-certificate"}), ("xyz", set())]
)
def test_zsh_gets_candidates(
    monkeypatch: pytest.MonkeyPatch, typed: str, expected: set[str]
) -> None:
    """Three lines each: of what kind it is, the word, and its help."""
    monkeypatch.setenv("_LOGWRIGHT_COMPLETE", "zsh_complete")
    monkeypatch.setenv("COMP_WORDS", f"logwright {typed}")
    monkeypatch.setenv("COMP_CWORD", "1")
    lines = CliRunner().invoke(main, prog_name="logwright").stdout.splitlines()
    assert expected == set(lines[1::3])
