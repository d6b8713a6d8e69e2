"""The file of a cluster is read strictly; errors have their position."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from logwright.config.cluster import Limits, read_cluster
from logwright.errors import PolicyError

WHOLE = """\
version: 1
bootstrap_servers: [kafka-1:9092]
state: state
stop: ssh kafka-{id} 'sudo systemctl stop kafka'
start: [start, "{id}", a b]
maintain: [clean --retain, [purge, --config, x=1]]
limits: {stop: 90s, maintain: 2h}
windows: ["Sat 01:00-06:00"]
brokers:
  - {id: 1, log_dirs: [/data]}
  - {id: 2, log_dirs: [/a, /b], start: other, maintain: [verify]}
"""


def test_commands_of_each_broker(tmp_path: Path) -> None:
    """Its own, else those of all; text is split as a shell does, and has the broker's id."""
    path = tmp_path / "cluster.yml"
    path.write_text(WHOLE)
    cluster = read_cluster(path)
    first, second = map(cluster.commands_of, cluster.brokers)
    assert ("ssh", "kafka-1", "sudo systemctl stop kafka") == first.stop
    assert ("start", "1", "a b") == first.start
    assert (("clean", "--retain"), ("purge", "--config", "x=1")) == first.maintain
    assert (("other",), (("verify",),)) == (second.start, second.maintain)
    assert (90_000, 7_200_000) == (cluster.limits.stop, cluster.limits.maintain)
    # stop, twice the lock, maintain, and two attempts to start
    assert 90_000 + 600_000 + 7_200_000 + 2 * (300_000 + 1_200_000) == cluster.limits.away_ms


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("version: 1", "version: 2", ":1:10: version: "),
        ("90s", "soon", ":7:16: limits.stop: is not a duration such as 90s, 10min or 4h"),
        ("clean --retain", "move --to x", ":6:11: maintain: each begins with roll, clean,"),
        (
            "clean --retain",
            "erase --keys k --policies p",
            ":6:11: maintain: erase takes only --keys, --keys-format, ",
        ),
        ("stop kafka'", "stop kafka", ":4:7: stop: is not a command: No closing quotation"),
        ("id: 2", "id: 1", ":10:3: brokers: two brokers have the same id"),
        ("id: 2", "id: -2", ":11:10: brokers[1].id: "),
        ("stop: ssh", "halt: ssh", ":4:1: halt: unknown key"),
        ("Sat 01:00", "Sat 25:00", ":8:11: windows[0]: not a time window"),
        ("state: state\n", "", ":1:1: state: is required"),
        ("log_dirs: [/data]", "log_dirs: []", ":10:23: brokers[0].log_dirs: "),
        (
            "state: state",
            "state: state\ncoordinate: true\nrun_with: env",
            ":4:13: coordinate: needs the log directories of all brokers on this machine",
        ),
    ],
)
def test_what_is_wrong_and_where(tmp_path: Path, old: str, new: str, problem: str) -> None:
    """Each problem has file, line, column and setting."""
    path = tmp_path / "cluster.yml"
    assert old in WHOLE
    path.write_text(WHOLE.replace(old, new))
    with pytest.raises(PolicyError) as refused:
        read_cluster(path)
    assert f"{path}{problem}" in str(refused.value)


def test_an_erasure_that_appends_is_not_run_on_a_directory(tmp_path: Path) -> None:
    """It would give one replica a record that only a leader may. One at once is."""
    path = tmp_path / "cluster.yml"
    path.write_text(WHOLE.replace("clean --retain", "erase --keys k --now-and-for-good"))
    cluster = read_cluster(path)
    assert ("erase", "--keys", "k", "--now-and-for-good") == cluster.on_directories[0]
    assert () == cluster.through_the_cluster
    path.write_text(WHOLE.replace("clean --retain", "erase --keys k"))
    cluster = read_cluster(path)
    assert (("erase", "--keys", "k"),) == cluster.through_the_cluster
    assert ["purge"] == [words[0] for words in cluster.on_directories]


def test_an_erasure_that_appends_is_not_all(tmp_path: Path) -> None:
    """Brokers would be stopped for nothing."""
    path = tmp_path / "cluster.yml"
    path.write_text(WHOLE.replace("clean --retain, [purge, --config, x=1]", "erase --keys k"))
    with pytest.raises(PolicyError, match="maintain: erase without --now-and-for-good only"):
        read_cluster(path)


def test_every_broker_can_be_stopped_started_and_maintained(tmp_path: Path) -> None:
    """By a command of its own or of the cluster."""
    path = tmp_path / "cluster.yml"
    lines = [line for line in WHOLE.splitlines() if not line.startswith("start")]
    path.write_text("\n".join(lines))
    with pytest.raises(PolicyError, match="a broker has no start, nor has the cluster"):
        read_cluster(path)


def test_the_documented_file(tmp_path: Path) -> None:
    """The file in the document is a valid one, and its limits are the defaults."""
    document = (Path(__file__).parents[3] / "docs" / "rolling.md").read_text()
    (block,) = re.findall(r"^```yaml\n(version: 1\n.*?)^```", document, re.MULTILINE | re.DOTALL)
    path = tmp_path / "cluster.yml"
    path.write_text(block)
    cluster = read_cluster(path)
    assert [1, 2, 3] == [broker.id for broker in cluster.brokers]
    assert Limits() == cluster.limits


HOOKS = (Path(__file__).parents[3] / "docs" / "rolling.md").read_text().partition("\n## Hooks\n")[2]


def blocks(kind: str) -> list[str]:
    """The examples of hooks of a kind."""
    texts: list[str] = re.findall(rf"^```{kind}\n(.*?)^```", HOOKS, re.MULTILINE | re.DOTALL)
    return texts


def test_the_documented_hooks(tmp_path: Path) -> None:
    """Each example is read as part of a cluster's file, with the broker's id in its commands."""
    whole = "\n".join(line for line in WHOLE.splitlines() if not line.startswith(("stop", "start")))
    assert 4 == len(blocks("yaml"))
    for number, block in enumerate(blocks("yaml")):
        path = tmp_path / f"{number}.yml"
        path.write_text(whole.replace("brokers:\n", f"{block}brokers:\n"))
        cluster = read_cluster(path)
        commands = cluster.commands_of(cluster.brokers[0])
        assert commands.stop is not None
        assert commands.start is not None
        for words in (commands.stop, commands.start):
            assert re.search(r"\b1\b", " ".join(words))
            assert "{" not in "".join(words)


def test_the_documented_scripts() -> None:
    """A shell reads each; together they are the hooks that an example calls."""
    scripts = blocks("sh")
    named = {name for text in scripts for name in re.findall(r"^# (\S+) ID: ", text, re.MULTILINE)}
    assert {"stop-strimzi", "start-strimzi"} == named
    assert all(f"./{name} " in HOOKS for name in named)
    for script in scripts:
        assert script.startswith("#!/bin/sh -e\n")
        subprocess.run(["/bin/sh", "-n"], input=script, text=True, check=True)
