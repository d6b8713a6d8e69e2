"""What ticks remember: a short cursor names a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from logwright.pipelines.lib.kept import keep, kept

DOCUMENT = json.dumps({f"orders-{number}": "in order" for number in range(10_000)})
HOUR_SECONDS = 3_600


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def context(instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorEvaluationContext:
    return dg.build_sensor_context(instance=instance, cursor=cursor)


def files(instance: dg.DagsterInstance) -> list[Path]:
    return sorted((Path(instance.storage_directory()) / "logwright/ticks").iterdir())


def test_a_cursor_is_short_and_can_be_read(instance: dg.DagsterInstance) -> None:
    """However many logs there are; the document comes back."""
    cursor = keep(context(instance), DOCUMENT, {"logs": 10_000, "due": 3})
    shown = json.loads(cursor)
    assert {"logs": 10_000, "due": 3, "file": files(instance)[0].name} == shown
    assert len(cursor) < 100
    assert (DOCUMENT, shown) == kept(context(instance, cursor))


def test_a_tick_that_is_not_finished_changes_nothing(instance: dg.DagsterInstance) -> None:
    """What the sensor's cursor names stays as it is."""
    cursor = keep(context(instance), DOCUMENT, {})
    keep(context(instance), "another", {})
    assert DOCUMENT == kept(context(instance, cursor))[0]


def test_files_that_no_tick_writes_go(instance: dg.DagsterInstance) -> None:
    """After an hour, by the tick of any sensor; one that is written again stays."""
    for document in ("old", "same"):
        keep(context(instance), document, {})
    for path in files(instance):
        past = path.stat().st_mtime - HOUR_SECONDS - 60
        os.utime(path, (past, past))
    keep(context(instance), "same", {})
    assert ["same"] == [path.read_text() for path in files(instance)]


@pytest.mark.parametrize(
    "cursor", [None, "", "eJyr", "7", "[]", '{"file": 3}', '{"file": "../../dagster.yaml"}']
)
def test_a_cursor_of_another_form_remembers_nothing(
    instance: dg.DagsterInstance, cursor: str | None
) -> None:
    """No other file is read."""
    assert ("", {}) == kept(context(instance, cursor))


def test_without_its_file_only_the_numbers_are_left(instance: dg.DagsterInstance) -> None:
    """As on another machine: all logs are read again."""
    cursor = keep(context(instance), DOCUMENT, {"spent": {"hour_ms": 3, "bytes": 5}})
    files(instance)[0].unlink()
    assert ("", json.loads(cursor)) == kept(context(instance, cursor))
