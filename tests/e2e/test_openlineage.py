"""What runs did, as an OpenLineage server gets it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import dagster as dg
import pytest
import yaml

from tests.e2e.harness import MARKS, NO_TELEMETRY
from tests.e2e.tables import platform_with_table, update
from tests.tidy.trees import ROOT

pytestmark = [
    *(pytest.mark.e2e, pytest.mark.nightly),
    *(mark for mark in MARKS if mark.name == "filterwarnings"),
]

TABLE: Final = "latest_state/t"
DIRECTORY: Final = "/var/lib/dagster/history"
"""Of the documented configuration."""


class Server(ThreadingHTTPServer):
    """Keeps the events that it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.events: list[dict[str, Any]] = []


class Receiver(BaseHTTPRequestHandler):
    """Answers as the server of OpenLineage's specification does."""

    server: Server

    def do_POST(self) -> None:
        """Keep the event."""
        length = int(self.headers["Content-Length"])
        self.server.events.append({"path": self.path, **json.loads(self.rfile.read(length))})
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What a server gets that the environment names."""
    with Server() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
        yield server.events
        server.shutdown()


def documented(directory: Path) -> dict[str, Any]:
    """The instance's configuration in docs/production.md, with another directory."""
    text = (ROOT / "docs/production.md").read_text()
    (block,) = (one for one in text.split("```yaml\n") if "dagster_openlineage" in one)
    assert DIRECTORY in block
    configuration: dict[str, Any] = yaml.safe_load(
        block.partition("```")[0].replace(DIRECTORY, str(directory))
    )
    return configuration


def test_a_server_gets_the_columns_of_a_table_and_its_checks(
    tmp_path: Path, events: list[dict[str, Any]]
) -> None:
    """As documented: schema, from which part of the records each column is, results of checks."""
    platform, _ = platform_with_table(tmp_path, "parquet")
    (tmp_path / "home").mkdir()
    overrides = NO_TELEMETRY | documented(tmp_path / "history")
    with dg.DagsterInstance.local_temp(str(tmp_path / "home"), overrides=overrides) as instance:
        assert update(replace(platform, instance=instance)).success
    assert {"/api/v1/lineage"} == {event["path"] for event in events}
    outputs = [output for event in events for output in event.get("outputs", [])]
    tables = [output for output in outputs if output["name"] == TABLE]
    facets = {name: facet for table in tables for name, facet in table["facets"].items()}
    columns = {field["name"] for field in facets["schema"]["fields"]}
    assert {"key", "value", "partition"} <= columns
    lineage = facets["columnLineage"]["fields"]
    assert columns == lineage.keys()
    (source,) = lineage["value"]["inputFields"]
    assert ("kafka_logs/segment_set", "value") == (source["name"], source["field"])
    inputs = [dataset for event in events for dataset in event.get("inputs", [])]
    quality = [dataset.get("inputFacets", {}).get("dataQualityAssertions") for dataset in inputs]
    checked = [assertion for facet in quality if facet for assertion in facet["assertions"]]
    failed = {assertion["assertion"] for assertion in checked if not assertion["success"]}
    assert {"keys_in_one_partition"} == failed, "the cases share keys"
