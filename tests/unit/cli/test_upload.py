"""``logwright upload``, and the commands that read what it wrote."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

from logwright.running import watermark
from tests.bucket.servers import NAME, environment, served
from tests.bucket_maintenance.breaking import Breaking, broken
from tests.log_builder import START_MS, LogBuilder
from tests.running_dirs import recording, running, two_segments
from tests.tidy.trees import ROOT
from tests.unit.cli.conftest import Call

NOW = ("--now", START_MS + 86_400_000)
INCOMPLETE = 9


@pytest.fixture(name="log_dir")
def _log_dir(tmp_path: Path) -> Path:
    """Two logs; the second has a segment more."""
    for number in (0, 1):
        log = LogBuilder(tmp_path / "logs", f"t-{number}")
        for base in range(0, 2 * number + 1, 2):
            log.segment(base).batch(base, [("ann", "1"), ("bob", None)])
        log.write(producers=True)
    (tmp_path / "logs/.kafka_cleanshutdown").touch()
    (tmp_path / "keys").write_text("ann\n")
    (tmp_path / "secret").write_text("0123456789abcdef" * 4)
    (tmp_path / "secret").chmod(0o600)
    return tmp_path / "logs"


def test_upload(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """What it says of each log, the first time and the second."""
    url = f"file://{tmp_path}/bucket"
    answer = call("upload", log_dir, "--to", url, *NOW, "--config", "cleanup.policy=compact")
    assert 0 == answer.status, answer.err
    first, second = answer.out.splitlines()
    assert first.startswith("t-0: up to offset 2, version 0; 4 files sent, ")
    assert second.startswith("t-1: up to offset 4, version 0; 8 files sent, ")
    answer = call("upload", log_dir, "t-1", "--to", url, *NOW, "--output", "json")
    (line,) = answer.lines
    sizes = sum(f.stat().st_size for f in (log_dir / "t-1").iterdir() if f.name[0] == "0")
    expected = {
        "topicPartition": "t-1",
        "version": 1,
        "logEndOffset": 4,
        "segments": 2,
        "bytes": sizes,
        "filesSent": 0,
        "bytesSent": 0,
        "commits": 1,
        "missingOffsets": None,
        "droppedOffsets": None,
    }
    assert expected == line, "the setting is not given any more"


def test_a_running_log_needs_a_younger_high_watermark(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleaner may have used records above an older one: keys would be missing in the bucket."""
    monkeypatch.setattr(watermark, "PATIENCE_SECONDS", 1.0)
    two_segments(tmp_path / "logs")
    url = f"file://{tmp_path}/bucket"
    with running(tmp_path / "logs", {"t-0": 5}):
        answer = call("upload", tmp_path / "logs", "--to", url, *NOW)
        assert (5, True) == (answer.status, "a younger one is needed" in answer.err)
        with recording(tmp_path / "logs", {"t-0": 5}):
            answer = call("upload", tmp_path / "logs", "--to", url, *NOW)
    assert 0 == answer.status, answer.err
    assert "t-0: up to offset 5, version 0" in answer.out


READ = {
    "inspect": ("--output", "json"),
    "dump": ("t-1",),
    "config": ("t",),
    "verify": (),
    "plan": ("--config", "cleanup.policy=compact,delete", "--verbose", "--forecast"),
    "find": ("--keys", "{keys}", "--secret", "{secret}"),
}


@pytest.mark.parametrize("command", READ)
def test_commands_read_it(call: Call, log_dir: Path, tmp_path: Path, command: str) -> None:
    """As they read the directory, which is not there any more."""
    url = f"file://{tmp_path}/bucket"
    assert 0 == call("upload", log_dir, "--to", url, *NOW).status
    words = [
        word.format(keys=tmp_path / "keys", secret=tmp_path / "secret") for word in READ[command]
    ]
    expected = call(command, log_dir, *words, *NOW)
    shutil.rmtree(log_dir)
    answer = call(command, url, *words, *NOW)
    assert expected.status == answer.status, answer.err
    assert expected.out
    if command in {"dump", "verify", "config", "plan"}:
        assert expected.out.replace(str(log_dir), "") == answer.out.replace(url, "")


REFUSED = {
    "delete": ((), "remove its directory with the tools of the bucket"),
    "move": (("--to", "{to}"), "`logwright download` writes the log into a log directory"),
    "recover": ((), "nothing is to be recovered. `logwright verify` checks it"),
}


@pytest.mark.parametrize("command", REFUSED)
def test_a_command_that_changes_no_bucket_refuses(
    call: Call, log_dir: Path, tmp_path: Path, command: str
) -> None:
    """And names what there is instead; those that change one are in `tests.unit.maintenance`."""
    url = f"file://{tmp_path}/bucket"
    assert 0 == call("upload", log_dir, "--to", url, *NOW).status
    (tmp_path / "other").mkdir()
    given, instead = REFUSED[command]
    words = [word.format(to=tmp_path / "other") for word in given]
    answer = call(command, url, *words, "t-0", "--yes", *NOW)
    text = " ".join(answer.err.split())
    assert (2, True) == (answer.status, f"{url} is in a bucket, and" in text), text
    assert instead in text


def test_audit_compares_a_bucket_with_a_directory(
    call: Call, log_dir: Path, tmp_path: Path
) -> None:
    """Of the same log nothing is found."""
    url = f"file://{tmp_path}/bucket"
    assert 0 == call("upload", log_dir, "--to", url, *NOW).status
    answer = call("audit", log_dir, url)
    assert 0 == answer.status, answer.out + answer.err


@pytest.mark.rotates(8)
@pytest.mark.parametrize(
    "words",
    [
        ("inspect",),
        ("config",),
        ("plan",),
        ("verify",),
        ("dump", "t-1", "--records"),
        ("latest", "t", "--to", "TABLE"),
        ("find", "--keys", "KEYS"),
        ("certificate", "--keys", "KEYS", "--signing-key", "KEY", "--out", "PROOF"),
        ("clean", "--config", "cleanup.policy=compact", "--force", "--yes"),
        ("retain", "--config", "cleanup.policy=delete", "--config", "retention.bytes=0", "--yes"),
        ("roll", "--force", "--yes"),
        ("erase", "--keys", "KEYS", "--now-and-for-good", "--yes"),
        ("undo", "t-0", "--yes"),
        ("purge", "--yes"),
        ("download", "--to", "RESTORED"),
    ],
    ids=lambda words: words[0],
)
def test_a_bucket_that_stops_answering(
    words: tuple[str, ...], call: Call, log_dir: Path, tmp_path: Path
) -> None:
    """From any request on: no command ends in a traceback, and none says that it is done; unless
    what was not answered was read ahead, and was not needed.
    """
    url = f"file://{tmp_path}/bucket"
    assert 0 == call("upload", log_dir, "--to", url, *NOW).status
    assert 0 == call("certificate", "--new-key", tmp_path / "key").status
    if words[0] == "undo":
        given = ("--config", "cleanup.policy=compact", "--force", "--yes")
        assert 0 == call("clean", url, *given, *NOW).status
    kept, succeeded = tmp_path / "kept", []
    shutil.copytree(tmp_path / "bucket", kept)
    for number in range(200):
        shutil.rmtree(tmp_path / "bucket")
        shutil.copytree(kept, tmp_path / "bucket")
        names = {"KEYS": tmp_path / "keys", "KEY": tmp_path / "key"}
        for name in ("TABLE", "PROOF", "RESTORED"):
            names[name] = tmp_path / f"{name}-{number}"
        given = [names.get(word, word) for word in words[1:]]
        breaking = Breaking(random.Random(number), down=number)
        clock = () if words[0] in ("undo", "purge") else NOW
        with broken(breaking):
            answer = call(words[0], url, *given, *clock)
        if not breaking.seen:
            break
        assert answer.status not in (0, 1) or words[0] == "latest", (number, answer.err)
        succeeded += [answer.out] if answer.status == 0 else []
    assert 0 < number < 199
    assert all(each == answer.out for each in succeeded)


@pytest.mark.parametrize("document", ["README.md", "docs/buckets.md"])
def test_the_documented_commands(
    document: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the README and of docs/buckets.md, each in its order, on a server."""
    reading = ("upload", "inspect", "verify", "latest")
    names = {
        "README.md": ["upload", "plan", "clean", "verify", "dump", "latest", "download"],
        "docs/buckets.md": [
            *reading,
            "archive",  # from a broker: tests/e2e/test_archive.py
            "plan",
            "clean",
            "retain",
            "undo",
            "erase",
            "purge",
            "verify",
            "download",
        ],
    }
    known = {
        *("--to", "--value", "string", "orders", "orders-0", "orders-table", "--records"),
        *("--config", "cleanup.policy=compact", "cleanup.policy=delete", "retention.ms=604800000"),
        *("--yes", "--keys", "keys.txt", "--now-and-for-good"),
        *("--bootstrap", "HOST:PORT", "--topic", "TOPIC"),
    }
    log = LogBuilder(tmp_path / "logs", "orders-0")
    for base in range(0, 6, 2):
        log.segment(base).batch(base, [("ann", "1"), ("bob", "2")])
    log.write(producers=True)
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    text = "".join(block for block in blocks if "s3://" in block)
    commands = re.findall(r"^logwright (\w+) (.+?)(?: +#.*)?$", text, re.MULTILINE)
    assert names[document] == [name for name, _ in commands]
    plain = {word for _, words in commands for word in words.split() if "/" not in word}
    assert plain <= known
    (tmp_path / "keys.txt").write_text("bob\n")
    here = {
        "/var/lib/kafka/data": tmp_path / "logs",
        "s3://archive/broker-1": f"s3://{NAME}/{Path(document).stem}",  # a client for each server
        "orders-table": tmp_path / "table",
        "/var/lib/kafka/restored": tmp_path / "restored",
        "keys.txt": tmp_path / "keys.txt",
    }
    with served() as port:
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        for name, words in commands:
            if name == "archive":
                continue
            answer = call(name, *[here.get(word, word) for word in words.split()])
            wanted = INCOMPLETE if name == "erase" else 0  # earlier versions have the key
            assert wanted == answer.status, (name, answer.err)
            assert answer.out or answer.err
    assert list((tmp_path / "table").rglob("*.parquet"))
    assert 0 == call("verify", tmp_path / "restored").status


def test_a_partition_is_read_by_its_own_manifest(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """A command that names a partition, or a topic, reads no manifest of another one."""
    url = f"file://{tmp_path}/bucket"
    shutil.copytree(log_dir / "t-0", log_dir / "other-0")
    assert 0 == call("upload", log_dir, "--to", url, *NOW).status
    (manifest,) = (tmp_path / "bucket/other-0/manifest").iterdir()
    manifest.write_bytes(b"not a manifest")
    settings = ("--config", "cleanup.policy=compact", *NOW)
    answer = call("plan", url, *settings)
    assert (3, True) == (answer.status, "checksum" in answer.err)
    for words in (
        ("plan", url, "t-0", *settings),
        ("dump", url, "t-1"),
        ("verify", url, "t-0", "t-1"),
        ("latest", url, "t", "--to", tmp_path / "table"),
    ):
        answer = call(*words)
        assert 0 == answer.status, answer.err
    answer = call("plan", url, "t-7", *settings)
    assert "has no partition t-7" in answer.err
