"""The assets `latest_state/<topic>`: after sweeps, appends, retention, undo and recovery the table
is what a plain dictionary over the log's records holds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import dagster as dg
import pytest

from logwright.assets.ingest import INGESTED
from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.assets.tables.checks import EQUAL
from logwright.assets.tables.topic_logs import LATEST_STATE
from logwright.pipelines.component import LogwrightComponent
from logwright.pipelines.platform import platform_definitions
from logwright.resources.catalogue import platform_resources
from logwright.resources.clock import Clock
from logwright.resources.policies import PolicyDirectory
from tests.e2e.command import call
from tests.e2e.harness import MARKS, Platform
from tests.e2e.tables import KEY, metadata_of, platform_with_table, results, step_of, update
from tests.e2e.test_secrets import NOW_MS, SECRETS, forms, plant
from tests.ingested import append, random_rows
from tests.log_builder import START_MS, LogBuilder, Pair
from tests.sequences.reading import read_content
from tests.table_rows import FORMATS, expected_rows, read_table, table_rows, version_of

pytestmark = MARKS

DAY_MS = 86_400_000
COMPACT = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
CHECKS = {
    "held_below_last_stable_offset": True,
    "records_decoded": True,
    "rows_equal_live_keys": True,
    "keys_in_one_partition": True,
}


@pytest.mark.rotates(3)
@pytest.mark.parametrize("form", FORMATS)
def test_after_a_sweep(tmp_path: Path, form: str) -> None:
    """Made, up to date after the sweep, without a new version when nothing is new."""
    platform, path = platform_with_table(tmp_path, form)
    done = update(platform)
    made = metadata_of(done)
    expected = expected_rows(platform.log_dir, "t")
    assert expected == table_rows(form, path)
    assert (len(expected), 2) == (made["dagster/row_count"], made["partitions rebuilt"])
    assert {**CHECKS, "keys_in_one_partition": False} == results(done)  # the cases share keys
    before = version_of(form, path)
    again = metadata_of(update(platform))
    assert (before, False) == (version_of(form, path), again["new version"])
    assert platform.sweep([]).success
    swept = metadata_of(update(platform))
    assert expected == table_rows(form, path) == expected_rows(platform.log_dir, "t")
    assert (before, 0) == (version_of(form, path), swept["bytes read"])


@pytest.mark.rotates(4)
def test_a_partition_without_a_log_is_named(tmp_path: Path) -> None:
    """Its rows stay, and the run's metadata says that they were not updated."""
    platform, path = platform_with_table(tmp_path, "parquet")
    title = "partitions without a log, not updated"
    assert title not in metadata_of(update(platform))
    before = table_rows("parquet", path)
    shutil.rmtree(platform.log_dir / "t-1")
    assert "[1]" == metadata_of(update(platform))[title]
    assert before == table_rows("parquet", path)


def with_log(platform: Platform, segments: Sequence[Sequence[Pair]]) -> Platform:
    """The platform with one log made by hand: a batch for each segment; its time is a day later."""
    shutil.rmtree(platform.log_dir)
    log = LogBuilder(platform.log_dir)
    offset = 0
    for pairs in segments:
        log.segment(offset).batch(offset, pairs)
        offset += len(pairs)
    log.write()
    return platform.at(START_MS + DAY_MS)


def pairs_of(keys: range, value: str | None) -> list[Pair]:
    return [(f"k{number}", value) for number in keys]


def clean(platform: Platform) -> None:
    """Compact the log as the command does."""
    done = call(
        *("clean", platform.log_dir, "t-0", *COMPACT, "--force", "--yes"),
        *("--now", platform.now_ms),
    )
    assert 0 == done.status, done.err


@pytest.mark.rotates(6)
@pytest.mark.parametrize("form", FORMATS)
def test_only_what_is_new_is_read(tmp_path: Path, form: str, seed: int) -> None:
    """After an append, and after a clean between two appends: offsets and bytes are those of the
    new records.
    """
    platform, path = platform_with_table(tmp_path, form, {"t-0": "basic-none"})
    first = step_of(metadata_of(update(platform)), 0)
    random = Random(seed)
    for number in range(2):
        rows = random_rows(random, 20, around_ms=platform.now_ms, spread_ms=1000)
        append(platform.log_dir, rows, {}, now_ms=platform.now_ms, ingest_id=str(number))
        metadata = metadata_of(update(platform))
        step = step_of(metadata, 0)
        assert ("upsert", first["held offset"]) == (step["step"], step["from offset"])
        assert 20 == step["held offset"] - step["from offset"]
        assert step["records read"] <= 20
        assert 0 < step["bytes read"] < first["bytes read"] / 2
        assert (0, 0.0) == (metadata["lag offsets"], metadata["lag seconds"])
        assert expected_rows(platform.log_dir, "t") == table_rows(form, path)
        first["held offset"] = step["held offset"]
        if number == 0:
            clean(platform)


@pytest.mark.rotates(4)
def test_retention_and_undo(tmp_path: Path) -> None:
    """The log start offset moves, and moves back: the partition is made again both times."""
    platform, path = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    platform = with_log(platform, [pairs_of(range(10), "a"), pairs_of(range(5), "b"), []])
    update(platform)
    words = ("--config", "cleanup.policy=delete", "--config", "retention.bytes=100", "--yes")
    assert 0 == call("retain", platform.log_dir, *words, "--now", platform.now_ms).status
    retained = step_of(metadata_of(update(platform)), 0)
    assert "the log start offset was 0 and is 1" in retained["why rebuilt"]
    assert expected_rows(platform.log_dir, "t") == table_rows("parquet", path)
    assert 0 == call("undo", platform.log_dir, "t-0", "--yes").status
    undone = step_of(metadata_of(update(platform)), 0)
    assert "and is 0" in undone["why rebuilt"]
    assert 10 == len(table_rows("parquet", path))
    assert expected_rows(platform.log_dir, "t") == table_rows("parquet", path)


@pytest.mark.rotates(4)
def test_undo_of_a_clean(tmp_path: Path) -> None:
    """The newest records are the same: nothing is done."""
    platform, path = platform_with_table(tmp_path, "delta", {"t-0": "basic-none"})
    update(platform)
    before = version_of("delta", path)
    clean(platform)
    assert not metadata_of(update(platform))["new version"]
    assert 0 == call("undo", platform.log_dir, "t-0", "--yes").status
    assert not metadata_of(update(platform))["new version"]
    assert before == version_of("delta", path)
    assert expected_rows(platform.log_dir, "t") == table_rows("delta", path)


@pytest.mark.rotates(4)
def test_a_recovery_that_cuts_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table held records that are gone: it is made again."""
    monkeypatch.setattr("logwright.assets.lib.boundary.RETRY_AFTER_SECONDS", 0)
    platform, path = platform_with_table(tmp_path, "iceberg", {"t-0": "basic-none"})
    platform = with_log(platform, [pairs_of(range(10), "a"), pairs_of(range(5), "b")])
    update(platform)
    segment = platform.partition("t-0") / f"{10:020d}.log"
    os.truncate(segment, segment.stat().st_size - 3)
    (platform.log_dir / ".kafka_cleanshutdown").unlink()
    done = update(platform)
    assert not done.success
    assert 0 == call("recover", platform.log_dir, "--yes", "--now", platform.now_ms).status
    step = step_of(metadata_of(update(platform)), 0)
    assert "the last stable offset 10 is below offset 15" in step["why rebuilt"]
    assert {b"a"} == {value for _, _, _, value in table_rows("iceberg", path)}
    assert expected_rows(platform.log_dir, "t") == table_rows("iceberg", path)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("late", [True, False])
def test_tombstones_that_are_gone(tmp_path: Path, *, late: bool) -> None:
    """While the table was not updated, two cleans removed tombstones, or not: their keys are gone.
    Only what is new is read, and the other rows are compared with the log.
    """
    platform, path = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    begin = [pairs_of(range(10), "a"), pairs_of(range(3), "b")]
    platform = with_log(platform, begin)
    update(platform)
    dead = [(f"k{number}".encode(), None, [], platform.now_ms) for number in range(3, 8)]
    later = platform.at(platform.now_ms + (DAY_MS if late else 0) + 1000)
    for number, (rows, when) in enumerate(
        [
            ([*dead, (b"x", b"y", [], platform.now_ms)], platform),
            ([(b"y", b"z", [], platform.now_ms)], later),
        ]
    ):
        append(platform.log_dir, rows, {}, now_ms=platform.now_ms, ingest_id=str(number))
        rolled = ("roll", platform.log_dir, "--force", "--yes", "--now", when.now_ms)
        assert 0 == call(*rolled).status
        clean(when)
    left = read_content(platform.log_dir, "t-0").rows
    assert late == (None not in [row.value for row in left])
    step = step_of(metadata_of(update(later)), 0)
    assert "upsert" == step["step"]
    kept = table_rows("parquet", path)
    assert [b"k0", b"k1", b"k2", b"k8", b"k9", b"x", b"y"] == sorted(key for _, _, key, _ in kept)
    assert expected_rows(later.log_dir, "t") == kept


@pytest.mark.rotates(6)
@pytest.mark.parametrize("form", FORMATS)
def test_decoded_with_quarantine_and_contract(tmp_path: Path, form: str) -> None:
    """Values become columns; what cannot be decoded is in the quarantine table, once; a row that
    breaks the contract fails the check with its offset, and no value is said.
    """
    more = (
        ", key: string, value: {format: json, schema: {id: long not null, name: string}}}"
        "\n    severity: WARN"
        "\n    tests: [{values: {format: json, columns: {id: {type: long, max_value: 7}}}}"
    )
    platform, path = platform_with_table(tmp_path, form, {"t-0": "basic-none"}, more)
    policy = platform.policies / "policies.yml"
    policy.write_text(policy.read_text().replace("max_value: 7}}}}}", "max_value: 7}}}}]"))
    values = ['{"id": 1, "name": "ann"}', '{"id": 9}', '{"id": "s3cret"}', "no json s3cret"]
    platform = with_log(platform, [[(f"k{at}", value) for at, value in enumerate(values)]])
    done = update(platform)
    made = metadata_of(done)
    kept = table_rows(form, path, ["_key", "key", "id", "name"])
    assert [(0, 0, b"k0", "k0", 1, "ann"), (0, 1, b"k1", "k1", 9, None)] == kept
    assert (2, 2) == (made["records refused"], made["rows in quarantine"])
    refused = read_table(form, path.with_name("table_quarantine"))
    assert [2, 3] == sorted(refused["offset"].to_pylist())
    assert {"value"} == set(refused["part"].to_pylist())
    assert "s3cret" not in str(refused.to_pylist())
    assert {**CHECKS, "table_contract": False} == results(done)
    (evaluation,) = [
        event.asset_check_evaluation_data
        for event in done.all_events
        if event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
        and event.asset_check_evaluation_data.check_name == "table_contract"
    ]
    assert dg.AssetCheckSeverity.WARN == evaluation.severity
    shown = {name: value.value for name, value in evaluation.metadata.items()}
    assert {
        "rows checked": 2,
        "rows": 2,
        "columns looked at": 1,
        "columns not looked at": 0,
        "id: at most 7": "WARN: rows 1, first offsets 1",
    } == shown
    rows = [(b"k2", b'{"id": 3}', [], platform.now_ms), (b"k0", b"{", [], platform.now_ms)]
    append(platform.log_dir, rows, {}, now_ms=platform.now_ms)
    done = update(platform)
    assert [(0, 1, b"k1", 9), (0, 4, b"k2", 3)] == table_rows(form, path, ["_key", "id"])
    refused = read_table(form, path.with_name("table_quarantine"))
    assert [2, 3, 5] == sorted(refused["offset"].to_pylist())
    assert results(done)["rows_equal_live_keys"]
    assert "s3cret" not in str([str(one) for one in done.all_events])


def test_a_failing_log_fails_its_own_table(tmp_path: Path) -> None:
    """The table of the other topic is made."""
    platform, path = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    policy = platform.policies / "policies.yml"
    other = f"  - name: u\n    table: {{format: delta, path: {tmp_path / 'other'}}}\n"
    policy.write_text(policy.read_text() + other)
    shutil.copytree(platform.partition("t-0"), platform.partition("u-0"))
    segment = next(iter(sorted(platform.partition("t-0").glob("*.log"))))
    damaged = bytearray(segment.read_bytes())
    damaged[100] ^= 1
    segment.write_bytes(damaged)
    done = update(platform, "t", "u")
    assert not done.success
    failed = [one for one in done.all_events if one.event_type is dg.DagsterEventType.STEP_FAILURE]
    assert ["latest_state__t"] == [
        event.step_key for event in failed if "rows_equal" not in event.step_key
    ]
    assert expected_rows(platform.log_dir, "u") == table_rows("delta", tmp_path / "other")
    assert not list(path.glob("partition=*"))


@pytest.mark.rotates(4)
def test_no_key_and_no_value_without_a_preview(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In no event and no line of a log; with `preview: true` in the metadata only."""
    platform, _ = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    shutil.rmtree(platform.log_dir)
    plant(platform.log_dir)
    platform = platform.at(NOW_MS)
    done = update(platform)
    assert done.success
    texts = "".join(map(str, done.all_events)) + "".join(capfd.readouterr())
    assert "held offset" in texts
    assert [] == [form for secret in SECRETS for form in forms(secret) if form in texts]
    policy = platform.policies / "policies.yml"
    policy.write_text(policy.read_text().replace("}\n", ", preview: true}\n"))
    shown = metadata_of(update(platform))["preview"]
    assert SECRETS[4] in str(shown)


@pytest.mark.rotates(6)
@pytest.mark.parametrize("form", FORMATS)
def test_a_preview_shows_no_row_that_is_deleted(tmp_path: Path, form: str, seed: int) -> None:
    """Also where the row is still in its file, and only marked as deleted: the file is large."""
    more = ", preview: true, buckets: 1"
    platform, path = platform_with_table(tmp_path, form, {"t-0": "basic-none"}, more)
    random = Random(seed)
    rows = [(key, random.randbytes(150_000).hex()) for key, _ in pairs_of(range(9), None)]
    update(with_log(platform, [rows]))
    done = update(with_log(platform, [rows, pairs_of(range(1), None)]))
    assert [key for key, _ in rows[1:]] == previewed(done)
    assert 8 == len(table_rows(form, path))


def previewed(done: dg.ExecuteInProcessResult) -> list[str]:
    """The keys of a preview, sorted."""
    return sorted(str(one.data["key"]) for one in metadata_of(done)["preview"].records)


def test_broken_policies_load_without_tables(tmp_path: Path) -> None:
    """As said in docs/adr/0019; they are back when the location is loaded again."""
    platform, _ = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    assert KEY in keys_of(platform)
    policy = platform.policies / "policies.yml"
    good = policy.read_text()
    policy.write_text(good.replace("format:", "formt:"))
    assert not [key for key in keys_of(platform) if key.path[0] == LATEST_STATE]
    policy.write_text(good)
    assert KEY in keys_of(platform)


def test_a_table_that_is_not_in_the_policies_any_more(tmp_path: Path) -> None:
    """The run fails and says what to do; the table stays."""
    platform, path = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    update(platform)
    rows = table_rows("parquet", path)
    definitions = platform_definitions(platform.resources())
    (platform.policies / "policies.yml").write_text("version: 1\n")
    done = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=platform.instance, asset_selection=[KEY], raise_on_error=False
    )
    assert not done.success
    assert rows == table_rows("parquet", path)


def test_made_after_a_sweep_and_after_an_ingest(tmp_path: Path) -> None:
    """As the daemon evaluates the condition: once for each change."""
    platform, _ = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    definitions = platform_definitions(platform.resources())
    cursor: Any = None
    for changed, expected in (
        (None, 0),
        (dg.AssetMaterialization(SEGMENT_SET, partition="t-0"), 1),
        (None, 0),
        (dg.AssetMaterialization(INGESTED), 1),
    ):
        if changed is not None:
            platform.instance.report_runless_asset_event(changed)
        evaluated = dg.evaluate_automation_conditions(definitions, platform.instance, cursor=cursor)
        assert expected == evaluated.get_num_requested(KEY)
        cursor = evaluated.cursor


def test_an_open_transaction(tmp_path: Path) -> None:
    """Its records and those after it are not held; the lag counts them, from the first one on."""
    platform, path = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    shutil.rmtree(platform.log_dir)
    log = LogBuilder(platform.log_dir)
    log.segment(0).batch(0, [("a", "1"), ("b", "2")]).batch(
        2, [("a", "3")], producer_id=7, transactional=True
    ).batch(3, [("b", "4")])
    log.write(producers=True)
    platform = platform.at(START_MS + 60_002)
    done = update(platform)
    metadata = metadata_of(done)
    assert [(0, 0, b"a", b"1"), (0, 1, b"b", b"2")] == table_rows("parquet", path)
    step = step_of(metadata, 0)
    assert (2, 2, 4) == tuple(
        step[name] for name in ("held offset", "last stable offset", "high watermark")
    )
    assert (2, 60.0) == (metadata["lag offsets"], metadata["lag seconds"])
    assert CHECKS == results(done)


def test_a_partition_in_two_directories(tmp_path: Path) -> None:
    """The table says which one it reads; without that the run fails."""
    platform, path = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    other = tmp_path / "other-logs"
    shutil.copytree(platform.log_dir, other)
    directories = [f"a={platform.log_dir}", f"b={other}"]
    policies = PolicyDirectory(directory=str(platform.policies))

    def run() -> bool:
        resources = platform_resources(
            directories=directories, policies=policies, clock=Clock(fixed_now_ms=platform.now_ms)
        )
        job = platform_definitions(resources).resolve_implicit_global_asset_job_def()
        return job.execute_in_process(
            instance=platform.instance, asset_selection=[KEY], raise_on_error=False
        ).success

    assert not run()
    policy = platform.policies / "policies.yml"
    policy.write_text(policy.read_text().replace("}\n", ", log_dir: b}\n"))
    assert run()
    assert expected_rows(other, "t") == table_rows("parquet", path)


def test_component(tmp_path: Path) -> None:
    """A `dg` project has the table and its daily check too."""
    platform, _ = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    component = LogwrightComponent(
        log_dirs={"a": str(platform.log_dir)}, policies=str(platform.policies), owners=["team:data"]
    )
    graph = component.definitions_in(tmp_path).resolve_asset_graph()
    assert ["team:data"] == graph.get(KEY).owners
    assert {KEY} == {one.asset_key for one in graph.asset_check_keys if one.name == EQUAL}


@pytest.mark.rotates(4)
def test_read_by_spark(tmp_path: Path, observed: Any) -> None:  # noqa: ANN401 - a session
    """A Parquet table is one that Spark reads by its files."""
    platform, path = platform_with_table(tmp_path, "parquet", {"t-0": "basic-none"})
    update(platform)
    rows = observed.spark.read.parquet(str(path)).select("partition", "offset", "key", "value")
    rows_read = sorted((p, o, bytes(k), bytes(v)) for p, o, k, v in rows.collect())
    assert expected_rows(platform.log_dir, "t") == rows_read


def keys_of(platform: Platform) -> set[dg.AssetKey]:
    definitions = platform_definitions(platform.resources())
    return set(definitions.resolve_asset_graph().get_all_asset_keys())
