"""`--log-format json`: each line of stderr is an object; fields come from templates alone."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from logwright.cli.log_lines import JsonFormatter
from tests.fixtures import clean_arguments, copy_before
from tests.unit.cli.conftest import Call


def line(msg: str, *args: object, error: Exception | None = None) -> dict[str, Any]:
    """What the formatter makes of a record."""
    info = None if error is None else (type(error), error, None)
    record = logging.LogRecord("logwright.x", logging.INFO, "x.py", 1, msg, args, info)
    event: dict[str, Any] = json.loads(JsonFormatter().format(record))
    return event


def test_fields_are_those_of_the_template() -> None:
    """With the types of their values; a value cannot make a field or a line."""
    event = line("purged topic_partition=%s bytes=%d 100%% done=%r %s", "a=b\nc=1", 7, None, "x=1")
    assert {"topic_partition": "a=b\nc=1", "bytes": 7, "done": None} == event["fields"]
    assert "purged topic_partition=a=b\nc=1 bytes=7 100% done=None x=1" == event["message"]
    assert ("info", "logwright.x") == (event["level"], event["logger"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["time"])
    assert "fields" not in line("nothing named")


@pytest.mark.parametrize("value", [b"secret", bytearray(b"secret"), memoryview(b"secret")])
def test_bytes_are_not_shown(value: object) -> None:
    """Neither in the message nor in a field; only how many they are."""
    event = line("key=%s offset=%d", value, 5)
    assert {"key": "6 bytes", "offset": 5} == event["fields"]
    assert "key=6 bytes offset=5" == event["message"]


def test_exception() -> None:
    """Its text is part of the object."""
    assert "ValueError: bad" in line("failed", error=ValueError("bad"))["exception"]


def objects(text: str) -> list[dict[str, Any]]:
    """Each line as an object."""
    return [json.loads(one) for one in text.splitlines()]


def test_a_command_reports_what_it_did(tmp_path: Path, call: Call) -> None:
    """Results stay on stdout as they are; what is retired and purged is on stderr."""
    log_dir = copy_before("basic-none", tmp_path)
    words = clean_arguments("basic-none")
    cleaned = call("clean", log_dir, *words, "--log-format", "json")
    assert 0 == cleaned.status
    assert "reclaimed" in cleaned.out.lower()
    objects(cleaned.err)
    purged = call("purge", log_dir, "--yes", "--now", 2**61, "--log-format", "json")
    (event,) = [one for one in objects(purged.err) if one["message"].startswith("purged ")]
    assert "logwright.purge.commit" == event["logger"]
    assert "t-0" == event["fields"]["topic_partition"]
    assert 0 < event["fields"]["bytes"]


def test_an_error_is_an_object(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the command, and of a single partition; the environment can choose the format."""
    monkeypatch.setenv("LOGWRIGHT_LOG_FORMAT", "json")
    failed = call("clean", tmp_path / "none", "--yes")
    (event,) = objects(failed.err)
    assert ("error", 5) == (event["level"], event["fields"]["exit_status"])
    assert "NotALogDir" == event["fields"]["error"]
    monkeypatch.delenv("LOGWRIGHT_LOG_FORMAT")
    assert call("clean", tmp_path / "none", "--yes").err.startswith("Error: ")


def test_text_is_the_default(tmp_path: Path, call: Call) -> None:
    """Lines of level info are not shown, and nothing is left of a command's handler."""
    log_dir = copy_before("basic-none", tmp_path)
    answer = call("purge", log_dir, "--yes")
    assert "purged " not in answer.err
    assert [] == logging.getLogger("logwright").handlers


def test_an_error_of_a_partition_is_an_object(tmp_path: Path, call: Call) -> None:
    """With its topic partition; as text it is as before."""
    log_dir = copy_before("bad-crc-sealed", tmp_path)
    words = ("clean", log_dir, "--yes", "--force", "--config", "cleanup.policy=compact")
    events = [one for one in objects(call(*words, "--log-format", "json").err) if "fields" in one]
    assert ("error", "t-0") == (events[0]["level"], events[0]["fields"]["topic_partition"])
    assert "Error: t-0: " in call(*words).err
