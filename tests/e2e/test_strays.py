"""What the platform does of logs that no broker would serve, and of those whose settings nothing
says: it leaves them alone, says why, and counts them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.fleet.inventory import fleet_inventory
from logwright.pipelines.retention.retain import retention
from logwright.pipelines.segments.sensors import due_logs
from tests.e2e.harness import MARKS, Platform, make_platform, tree
from tests.fixtures import description
from tests.metadata_builder import MetadataBuilder, config, partition, topic, uuid_text

pytestmark = [pytest.mark.e2e, *(mark for mark in MARKS if mark.name == "filterwarnings")]

INVENTORY = "kafka_logs__fleet_inventory"
LOGS = {"size-0": "delete-size", "lost-0": "delete-time"}
DEFAULTS = """\
version: 1
high_watermark: end
defaults: {segment.ms: 9000000000000, retention.ms: 1%s}
"""


def with_metadata(platform: Platform) -> Platform:
    """The cluster has the topic ``size`` alone; the other log is of a topic that was deleted."""
    log_dir = platform.log_dir
    records = [topic("size", 1), partition(1, 0, [1])]
    configs = {"retention.bytes": "12000", "retention.ms": "-1"}
    MetadataBuilder(log_dir).segment(
        0, records, [config(2, "size", name, value) for name, value in configs.items()]
    )
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    for number, key in enumerate(LOGS, start=1):
        text = f"version: 0\ntopic_id: {uuid_text(number)}"
        (log_dir / key / "partition.metadata").write_text(text)
    return platform


def retained(platform: Platform) -> dict[str, Any]:
    """What a retention that went well says in its metadata."""
    done = retention.execute_in_process(
        instance=platform.instance, resources=platform.resources(), raise_on_error=False
    )
    assert done.success
    (metadata,) = (
        event.step_output_data.metadata
        for event in done.all_events
        if event.event_type is dg.DagsterEventType.STEP_OUTPUT
    )
    return {name: value.value for name, value in metadata.items()}


def inventory(platform: Platform) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The rows by log, and the metadata."""
    run = dg.materialize(
        [fleet_inventory], instance=platform.instance, resources=platform.resources()
    )
    (event,) = run.asset_materializations_for_node(INVENTORY)
    metadata = {name: value.value for name, value in event.metadata.items()}
    return {row["log"]: row for row in run.output_for_node(INVENTORY)}, metadata


def skipped(platform: Platform) -> str:
    """Why the sensor asks for nothing."""
    with dg.build_sensor_context(
        instance=platform.instance, resources=platform.resources()
    ) as context:
        return str(due_logs.evaluate_tick(context).skip_message)


def test_strays_are_left_alone_and_counted(tmp_path: Path) -> None:
    """The topic that the cluster has goes by the cluster's settings, as Kafka retained it."""
    platform = with_metadata(make_platform(tmp_path, LOGS, DEFAULTS % ", cleanup.policy: delete"))
    (log_dir, lost) = (platform.log_dir, platform.partition("lost-0"))
    before = tree(lost)
    rows, metadata = inventory(platform)
    reason = f"it is stray: its topic id {uuid_text(2)} is unknown to the cluster"
    assert ("", reason) == (rows["size-0"]["stray"], rows["lost-0"]["stray"])
    assert (1, 0) == (metadata["stray"], metadata["unknown policy"])
    used = "cluster c up to offset 4, no snapshot"
    assert used == metadata["cluster metadata"]
    assert f"lost-0: {reason}" in skipped(platform)
    shown = retained(platform)
    assert (1, used) == (shown["skipped"], shown["cluster metadata"])
    (kafkas,) = description("delete-size")["results"]
    left = sorted(int(path.stem) for path in (log_dir / "size-0").glob("*.log"))
    assert kafkas["segmentsAfter"] == left
    assert before == tree(lost)


@pytest.mark.rotates(3)
def test_what_nothing_says_is_left_alone_and_counted(tmp_path: Path) -> None:
    """Without metadata, and policies that say no cleanup.policy."""
    platform = make_platform(tmp_path, LOGS, DEFAULTS % "")
    before = tree(platform.log_dir)
    rows, metadata = inventory(platform)
    assert {"unknown"} == {row["policy"] for row in rows.values()}
    assert (0, 2) == (metadata["stray"], metadata["unknown policy"])
    assert "cluster metadata" not in metadata
    for key in LOGS:
        assert f"{key}: its cleanup.policy is unknown" in skipped(platform)
    assert 2 == retained(platform)["skipped"]
    assert before == tree(platform.log_dir)


def test_an_entry_that_disagrees_with_the_cluster_is_shown(tmp_path: Path) -> None:
    """By the retention and the inventory; nothing goes that the cluster keeps."""
    entry = "topics: [{name: size, retention.bytes: 1}]\n"
    platform = with_metadata(make_platform(tmp_path, LOGS, DEFAULTS % "" + entry))
    name = "policies that disagree with the cluster"
    shown = str(inventory(platform)[1][name])
    assert shown.startswith("- size: retention.bytes=1 (")
    assert "but the cluster has retention.bytes=12000" in shown
    assert shown == str(retained(platform)[name])
    (kafkas,) = description("delete-size")["results"]
    left = sorted(int(path.stem) for path in platform.partition("size-0").glob("*.log"))
    assert kafkas["segmentsAfter"] == left
