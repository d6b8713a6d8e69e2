"""The commands that the README and the pages of `docs/` show with arguments or options are run,
with a real log directory in place of the example's. A name alone, such as `logwright undo`, is a
word: `tests/tidy/test_commands.py` checks that the command exists.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest

from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.resources.policies import POLICIES_VARIABLE
from tests.e2e.command import PROGRAM, REPOSITORY, call, free_port
from tests.fixtures import copy_before
from tests.log_builder import LogBuilder
from tests.tidy.test_commands import documented

pytestmark = pytest.mark.e2e

CASE: Final = "basic-none"
EXAMPLE: Final = "/var/lib/kafka/data"
REPLICA: Final = "/srv/broker-2/data"
"""The log directory of another broker with the same partitions."""
COMPACT: Final = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
DELETE: Final = ("--config", "cleanup.policy=delete", "--config", "retention.bytes=1000")
BOTH: Final = ("--config", "cleanup.policy=compact,delete", "--config", "retention.bytes=1000")

ELSEWHERE: Final = {
    "logwright rescue LOG_DIR... --set-aside DIR --yes": (
        "tests/unit/cli/test_rescue.py",
        "test_two_logs_of_a_partition",
    ),
    "logwright archive LOG_DIR --bootstrap HOST:PORT --topic T": (
        "tests/e2e/test_archive.py",
        "test_a_topic_is_copied_and_the_copy_goes_on",
    ),
    "logwright erase LOG_DIR --keys FILE": (
        "tests/unit/cli/test_erase.py",
        "test_the_documented_commands",
    ),
    "logwright erase LOG_DIR --keys FILE --now-and-for-good": (
        "tests/unit/cli/test_erase.py",
        "test_the_documented_commands",
    ),
    **dict.fromkeys(
        ("logwright rolling CLUSTER.yml", "logwright rolling CLUSTER.yml --dry-run"),
        ("tests/e2e/test_rolling.py", "test_a_broker_is_maintained_in_a_running_cluster"),
    ),
    f"logwright dump {EXAMPLE} TOPIC-N --follow": (
        "tests/e2e/test_next_to_a_broker.py",
        "test_commands_read_next_to_a_running_broker",
    ),
    **dict.fromkeys(
        (
            f"logwright inspect {EXAMPLE} --tier /tier",
            f"logwright dump {EXAMPLE} TOPIC-N --tier /tier --records",
            f"logwright verify {EXAMPLE} --tier /tier --tier-key FILE",
            f"logwright latest {EXAMPLE} TOPIC --to DIR --tier /tier",
            f"logwright find {EXAMPLE} --keys FILE --tier /tier",
            "logwright dump tier:/tier TOPIC-N --records",
        ),
        ("tests/unit/cli/test_tier.py", "test_the_documented_commands"),
    ),
    **dict.fromkeys(
        (
            "logwright quorum /var/lib/kafka/controller /srv/broker-2/data",
            (
                "logwright quorum /var/lib/kafka/controller /srv/broker-2/data"
                " --to /var/lib/kafka/rescued --yes"
            ),
            "logwright inspect LOG_DIR --metadata /var/lib/kafka/rescued/__cluster_metadata-0",
        ),
        ("tests/unit/quorum/test_quorum.py", "test_the_documented_commands"),
    ),
    "logwright move LOG_DIR TOPIC-N --abandon": (
        "tests/unit/cli/test_move.py",
        "test_open_move_is_told_of",
    ),
    **dict.fromkeys(
        (
            f"logwright upload {EXAMPLE} --to s3://archive/broker-1",
            "logwright inspect s3://archive/broker-1",
            "logwright verify s3://archive/broker-1",
            "logwright latest s3://archive/broker-1 orders --to orders-table --value string",
            "logwright dump s3://archive/broker-1 orders-0 --records",
            "logwright plan s3://archive/broker-1",
            "logwright clean s3://archive/broker-1 --config cleanup.policy=compact --yes",
            (
                "logwright retain s3://archive/broker-1 orders-0 --config cleanup.policy=delete"
                " --config retention.ms=604800000 --yes"
            ),
            "logwright undo s3://archive/broker-1 orders-0 --yes",
            "logwright erase s3://archive/broker-1 --keys keys.txt --now-and-for-good --yes",
            "logwright purge s3://archive/broker-1 --yes",
            "logwright download s3://archive/broker-1 --to /var/lib/kafka/restored",
        ),
        ("tests/unit/cli/test_upload.py", "test_the_documented_commands"),
    ),
    "logwright archive s3://archive/broker-1 --bootstrap HOST:PORT --topic TOPIC": (
        "tests/e2e/test_archive.py",
        "test_a_topic_is_copied_into_a_bucket",
    ),
    **dict.fromkeys(
        (
            f"logwright latest {EXAMPLE} customers --to s3://lake/customers",
            "logwright latest s3://archive/broker-1 customers --to s3://lake/customers",
        ),
        ("tests/e2e/test_tables_in_a_bucket.py", "test_the_command"),
    ),
    **dict.fromkeys(
        (
            (
                f"logwright certificate {EXAMPLE} --keys keys.txt --table s3://lake/customers"
                " --signing-key signing.pem --out certificate.json"
            ),
            (
                "logwright verify-certificate certificate.json --public-key signing.pem.pub"
                f" {EXAMPLE} s3://lake/customers"
            ),
        ),
        ("tests/unit/cli/test_certificate_of_a_bucket.py", "test_the_documented_commands"),
    ),
    "logwright clean s3://… --engine spark --spark-master spark://HOST:7077": (
        "tests/spark/test_in_bucket.py",
        "test_a_cluster_without_a_shared_directory",
    ),
    f"logwright metrics --port 9404 {EXAMPLE}": (
        "tests/e2e/test_documented_commands.py",
        "test_metrics_are_served",
    ),
}
"""Commands that need a broker, an interrupted process or a port: the file and the name of the test
that runs them."""

SETTINGS: Final = {
    "clean": COMPACT,
    "maintain": COMPACT,
    "plan": COMPACT,
    "retain": DELETE,
    "recover": COMPACT,
    "erase": COMPACT,
}
"""What an operator's policies would say of the topic."""

CHANGING: Final = frozenset(
    (
        "clean",
        "delete",
        "erase",
        "ingest",
        "maintain",
        "pause",
        "purge",
        "quarantine",
        "recover",
        "resume",
        "retain",
        "undo",
    )
)
"""They ask, unless they have ``--yes``; the documents leave that to the reader."""
SERVE_SECONDS: Final = 60
SHOWING: Final = 2
"""Words of `pause LOG_DIR` and `quarantine LOG_DIR`, which only show."""


@cache
def commands() -> list[str]:
    """Every command of README and docs that has more than a name, without its comment."""
    written = {
        re.split(r" +(?:#|&&|\||>) ?", command)[0].strip()
        for document, command in documented()
        if document == "README.md" or re.fullmatch(r"docs/(for/)?[^/]+", document)
    }
    return sorted(one for one in written if not re.fullmatch(r"logwright [a-z]+", one))


def _cleaned(log_dir: Path) -> None:
    words = (*COMPACT, "--high-watermark", "end", "--force", "--yes")
    assert call("clean", log_dir, *words).status == 0


def _paused(log_dir: Path) -> None:
    assert call("pause", log_dir, "t-0", "--reason", "a test", "--yes").status == 0


def _killed(log_dir: Path) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()


def _formatted(log_dir: Path) -> None:
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")


def _with_offsets(log_dir: Path) -> None:
    log = LogBuilder(log_dir, "__consumer_offsets-0")
    log.segment(0).batch(0, [(bytes.fromhex("00020001") + b"g", None)])
    log.write()


PREPARED: Final[dict[str, Callable[[Path], None]]] = {
    "doctor": _formatted,
    "offsets": _with_offsets,
    "rescue": _formatted,
    "undo": _cleaned,
    "resume": _paused,
    "recover": _killed,
    "purge": _cleaned,
}


def _with_json(tmp_path: Path) -> Path:
    """A log whose values have the documented fields; all of it is committed."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("k", '{"id": 1, "name": "Ada"}')])
    log.write()
    offsets = serialize_offset_checkpoint({TopicPartition("t", 0): 1})
    (log.log_dir / "replication-offset-checkpoint").write_bytes(offsets)
    return log.log_dir


@pytest.mark.parametrize("command", [one for one in commands() if one not in ELSEWHERE])
def test_a_command_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends well, and says something."""
    log_dir = _with_json(tmp_path) if "format: json" in command else copy_before(CASE, tmp_path)
    (tmp_path / "policies").mkdir()
    monkeypatch.setenv(POLICIES_VARIABLE, str(tmp_path / "policies"))
    (tmp_path / "policies/defaults.yml").write_text(
        (REPOSITORY / "dbt_like_configs/defaults.yml").read_text()
    )
    (tmp_path / "rows.json").write_text('{"key": "a", "value": "1"}\n')
    _write_erasure(tmp_path)
    words = _substituted(command, log_dir, tmp_path)
    name = words[0]
    if REPLICA in command:
        shutil.copytree(log_dir, tmp_path / "replica")
    PREPARED.get(name, lambda _: None)(log_dir)
    if "--signing-key" in words or name == "verify-certificate":
        _signed(log_dir, tmp_path)
    if name == "retain" and "--retain" not in words:
        words += DELETE
    elif "--retain" in words:
        words += (*BOTH, "--force")
    else:
        words += SETTINGS.get(name, ())
    shows = name in {"pause", "quarantine"} and len(words) == SHOWING
    done = call(*words, *(("--yes",) if name in CHANGING and not shows else ()))
    assert done.status == 0, done.err
    written = (tmp_path / "logwright.prom").read_text() if "--textfile" in words else ""
    assert done.out or done.err or written


def _write_erasure(tmp_path: Path) -> None:
    """A secret, keys of records that nobody has, and requests for them."""
    (tmp_path / "erasure.secret").write_text("0123456789abcdef" * 4)
    (tmp_path / "erasure.secret").chmod(0o600)
    (tmp_path / "keys.txt").write_text("nobody\n")
    (tmp_path / "base64.txt").write_text("bm9ib2R5\n")
    (tmp_path / "requests").mkdir()
    (tmp_path / "requests/first.csv").write_text(
        "id,topics,key,received_at,deadline\nr-2041,t,nobody,0,1000\n"
    )


def _signed(log_dir: Path, tmp_path: Path) -> None:
    """A certificate of the log directory, and the key pair."""
    key = tmp_path / "signing.pem"
    assert call("certificate", "--new-key", key).status == 0
    words = ("--keys", tmp_path / "keys.txt", "--secret", tmp_path / "erasure.secret")
    out = ("--signing-key", key, "--out", tmp_path / "certificate.json")
    assert call("certificate", log_dir, *words, *out).status == 0


def _substituted(command: str, log_dir: Path, tmp_path: Path) -> list[str]:
    """The words of a command, with what exists in place of what a reader would put there."""
    for old, new in (
        ("/var/lib/node_exporter", str(tmp_path)),
        ("/etc/logwright/", f"{tmp_path}/"),
        ("/var/lib/logwright/", f"{tmp_path}/"),
        (" keys.txt", f" {tmp_path}/keys.txt"),
        (" patterns.txt", f" {tmp_path}/keys.txt"),
        ("--keys person.keys", f"--keys {tmp_path}/base64.txt"),
        (" person.keys", f" {tmp_path}/person.keys"),
        (" certificate.json", f" {tmp_path}/certificate.json"),
        (" signing.pem", f" {tmp_path}/signing.pem"),
        (" files.sha256", f" {tmp_path}/files.sha256"),
        (EXAMPLE, str(log_dir)),
        (REPLICA, str(tmp_path / "replica")),
        ("LOG_DIR...", str(log_dir)),
        ("LOG_DIR", str(log_dir)),
        ("[TOPIC ...]", "t"),
        ("TOPIC-N", "t-0"),
        ("[DIR]", str(tmp_path / "policies")),
        ("COMMAND", "plan"),
        ("[t-0 ...]", "t-0"),
        ("LOOK", str(log_dir)),
        ("recover --accept-loss", f"recover --accept-loss {log_dir}"),
        (" customers --to ", f" t --to {tmp_path}/"),
        ("--from PATH", f"--from {tmp_path / 'rows.json'}"),
        ("--topic T", "--topic new"),
        ("20GiB", "1KiB"),
        ("--topic regex:customers.*", "--topic regex:t.*"),
        ("--partitions N", "--partitions 2"),
    ):
        command = command.replace(old, new)
    return shlex.split(command)[1:]


@pytest.mark.parametrize(("command", "test"), ELSEWHERE.items())
def test_the_others_are_run_elsewhere(command: str, test: tuple[str, str]) -> None:
    """They are still documented, and the named tests have their name and options as words."""
    assert command in commands()
    file, function = test
    tree = ast.parse((REPOSITORY / file).read_text())
    (definition,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    words = {one.value for one in ast.walk(definition) if isinstance(one, ast.Constant)}
    assert words >= {word for word in command.split()[1:] if word.islower() and "/" not in word}


def test_metrics_are_served(tmp_path: Path) -> None:
    """By the real command, until it is stopped."""
    log_dir, port = copy_before(CASE, tmp_path), free_port()
    words = ["metrics", "--port", str(port), str(log_dir)]
    running = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], cwd=REPOSITORY)
    try:
        for _ in range(SERVE_SECONDS * 10):
            with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                text = answer.read().decode()
                break
            assert running.poll() is None
            time.sleep(0.1)
        assert "kafka_log_log_size" in text
    finally:
        running.terminate()
        running.wait(timeout=30)


@pytest.mark.rotates(6)
def test_the_readme_block_runs_as_it_stands(tmp_path: Path) -> None:
    """From the log directory to sensors and schedules that are started, but for the set-up before
    and the web server at the end.
    """
    (block,) = re.findall(
        r"```sh\n(make setup.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL
    )
    first, *lines, last = block.strip().splitlines()
    assert first.startswith("make setup")
    assert last.startswith("dagster dev")
    log_dir = copy_before(CASE, tmp_path / "broker")
    log = observe(log_dir, TopicPartition("t", 0), high_watermark="end")
    (log_dir / "replication-offset-checkpoint").write_bytes(
        serialize_offset_checkpoint({log.partition: log.log_end_offset})
    )
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("logwright", "assets", "pipelines", "resources", "dbt_like_configs"):
        (checkout / name).symlink_to(REPOSITORY / name)
    (checkout / "workspace.yaml").write_text((REPOSITORY / "workspace.yaml").read_text())
    script = "\n".join(["set -e", *lines]).replace(EXAMPLE, str(log_dir))
    topic = "{name: t, cleanup.policy: compact, min.cleanable.dirty.ratio: 0}"
    topics = f"version: 1\\ntopics:\\n  - {topic}\\n"
    beginning = f"printf '{topics}' > policies/topics.yml\ndagster job"
    script = script.replace("dagster job", beginning, 1)
    before = sum(path.stat().st_size for path in log_dir.rglob("*.log"))
    done = subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=checkout,
        env=os.environ
        | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(checkout),
            "DAGSTER_DISABLE_TELEMETRY": "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert sum(path.stat().st_size for path in log_dir.rglob("*.log")) < before
    for name in ("due_logs", "purge_due", "retention_check", "fleet_report"):
        assert re.search(rf"Started (?:sensor|schedule) {name}", done.stdout)
