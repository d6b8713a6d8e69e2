"""The job `erase`: op by op to the certificate, failed unless nothing is left; executed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.bucket.agreement import limits_of
from logwright.bucket.commit import Collect
from logwright.bucket.driver import drive
from logwright.bucket.store import Bucket
from logwright.erasure.certificate.keys import load_public, new_key
from logwright.erasure.certificate.signed import read_certificate
from logwright.format.names import TopicPartition
from logwright.locks import lock_partition
from logwright.pipelines.definitions import defs
from logwright.pipelines.erasure.deadlines import ERASURE
from logwright.pipelines.erasure.erase import ERASE, erase
from logwright.pipelines.platform import platform_definitions
from logwright.resources.clock import NOW_VARIABLE
from logwright.resources.log_dirs import LOG_DIRS_VARIABLE
from logwright.resources.page import case_name, cases_directory
from logwright.resources.policies import POLICIES_VARIABLE
from logwright.state.model import Pause
from logwright.state.store import change_state
from logwright.units import TimestampMs
from tests.bucket_maintenance.copies import made_old, put, version
from tests.e2e.harness import MARKS, QUIET, Platform, new_instance, tree
from tests.e2e.test_erasure_platform import land, run
from tests.e2e.test_erasure_secrets import secret_file
from tests.erasing import bytes_anywhere, keys_in, logs_of
from tests.log_builder import START_MS, LogBuilder

pytestmark = MARKS

DAY_MS, DELAY_MS = 86_400_000, 60_000
NOW_MS = START_MS + DAY_MS
KEYS = ["person-0", "person-1"]
T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
STEPS = [
    *("find_records", "plan_erasure", "erase_records", "purge_erased"),
    *("check_erased", "certify_erased"),
]
AT_ONCE = {"now_and_for_good": True}


@pytest.fixture(name="platform")
def _platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """Two logs, each with both persons, requests for them in topic t and in all topics, and a key
    to sign with. As a code location finds it: by the environment.
    """
    log_dir = tmp_path / "kafka-logs"
    for name in ("t-0", "u-0"):
        log = LogBuilder(log_dir, name)
        log.segment(0).batch(0, [*((key, "v") for key in KEYS), ("other", "1")])
        log.segment(3).batch(3, [("other", "2"), (KEYS[0], "w")])
        log.write()
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    (tmp_path / "landing").mkdir()
    land(tmp_path, "all", KEYS, topics="regex:.*")
    new_key(tmp_path / "signing.pem")
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "p.yml").write_text(f"""\
version: 1
high_watermark: end
defaults:
  cleanup.policy: compact
  segment.ms: 9000000000000
  delete.retention.ms: {DAY_MS}
  file.delete.delay.ms: {DELAY_MS}
erasure:
  landing: {tmp_path / "landing"}
  store: {tmp_path / "store"}
  secret_file: {secret_file(tmp_path / "secret")}
  certificates: {tmp_path / "certificates"}
  signing_key: {tmp_path / "signing.pem"}
""")
    home = tmp_path / "dagster"
    monkeypatch.setenv(LOG_DIRS_VARIABLE, str(log_dir))
    monkeypatch.setenv(POLICIES_VARIABLE, str(policies))
    platform = Platform(
        log_dir=log_dir, policies=policies, home=home, instance=new_instance(home), now_ms=NOW_MS
    )
    assert run(platform, ERASURE).success
    return platform


def run_erase(platform: Platform, **config: object) -> dg.ExecuteInProcessResult:
    return run(platform, ERASE, {"ops": {"find_records": {"config": config}}})


def erase_job() -> dg.JobDefinition:
    """The job in another process."""
    return dg.Definitions.merge(defs, dg.Definitions(jobs=[erase])).resolve_job_def(ERASE)


def execute(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, again: str | None, **config: object
) -> dg.JobExecutionResult:
    """Run the job as a new process would, or execute a run again from its failed op."""
    monkeypatch.setenv(NOW_VARIABLE, str(platform.now_ms))
    if again is None:
        return dg.execute_job(
            dg.reconstructable(erase_job),
            instance=platform.instance,
            run_config={"ops": {"find_records": {"config": config}}} | QUIET,
        )
    options = dg.ReexecutionOptions.from_failure(again, platform.instance)
    return dg.execute_job(
        dg.reconstructable(erase_job), instance=platform.instance, reexecution_options=options
    )


def started(result: dg.JobExecutionResult) -> list[str]:
    return [
        str(event.step_key)
        for event in result.all_events
        if event.event_type is dg.DagsterEventType.STEP_START
    ]


def failure(result: dg.ExecutionResult) -> tuple[str, str, dict[str, Any]]:
    """The op that failed, its description and metadata."""
    (event,) = (one for one in result.all_events if one.is_step_failure)
    data = event.step_failure_data.user_failure_data
    assert data is not None
    values = {name: value.value for name, value in data.metadata.items()}
    return str(event.step_key), str(data.description), values


def shown(result: dg.ExecuteInProcessResult, step: str) -> Mapping[str, Any]:
    """The metadata of an op's output."""
    (event,) = (
        event
        for event in result.all_events
        if event.is_successful_output and event.step_key == step
    )
    return {name: value.value for name, value in event.event_specific_data.metadata.items()}


def logs(platform: Platform) -> dict[str, object]:
    return {str(path): tree(path) for path in sorted(platform.log_dir.glob("?-0"))}


@pytest.mark.rotates(4)
def test_at_once(platform: Platform, tmp_path: Path) -> None:
    """All is erased, the certificate proves it, and the run succeeds; a repetition changes
    nothing.
    """
    result = run_erase(platform, **AT_ONCE)
    assert result.success
    assert (2, 6) == (shown(result, STEPS[0])["requests"], shown(result, STEPS[0])["records"])
    for step in STEPS[1:3]:
        assert (2, 2, 6, 0) == tuple(
            shown(result, step)[name] for name in ("logs", "logs with records", "records", "failed")
        )
    last = shown(result, STEPS[-1])
    assert (0, 0, 0, 0) == tuple(
        last[name]
        for name in ("exit status", "records left", "rows left in tables", "not searched")
    )
    made = read_certificate(Path(last["certificate"]), load_public(tmp_path / "signing.pem.pub"))
    assert ["gone", "gone"] == [one.state for one in made.requests]
    assert "Close the case, and keep the certificate." == last["next step"]
    page = Path(last["certificate page"]).read_text()
    assert "<strong>2 gone from their topics</strong>" in page
    assert "erased at once" in page
    assert run(platform, ERASURE).success
    cases = cases_directory(platform.instance.storage_directory())
    case = (cases / case_name("all-1")).read_text()
    assert "<h1>Erasure case all-1</h1>" in case
    assert "Next step: Close the case, and keep the certificate." in case
    assert "So does this search." in case
    assert not any(text in case for one in made.requests for text in (one.hmac[:16], *KEYS))
    for key in KEYS:
        assert [] == bytes_anywhere(platform.log_dir, key.encode())
    assert [b"other"] == keys_in(logs_of(platform.log_dir / "t-0"))
    before = logs(platform)
    assert run_erase(platform, **AT_ONCE).success
    assert before == logs(platform)


def test_by_the_rules_until_nothing_is_left(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """While tombstones remain a run fails as the command ends, 8, with a certificate of what
    remains. Executed again from there once they are gone, it succeeds.
    """
    first = execute(platform, monkeypatch, None)
    step, description, values = failure(first)
    assert ("certify_erased", "8: everything was searched, and records remain.") == (
        step,
        description,
    )
    assert (8, 0) == (values["exit status"], values["not searched"])
    assert values["records left"] > 0
    assert Path(values["certificate"]).exists()
    before = logs(platform)
    assert not execute(platform, monkeypatch, None).success
    assert before == logs(platform)
    for now_ms in (NOW_MS + DAY_MS, NOW_MS + DAY_MS + DELAY_MS):
        last = execute(platform.at(now_ms), monkeypatch, None)
    assert last.success
    again = execute(platform.at(NOW_MS + 2 * DAY_MS), monkeypatch, first.run_id)
    assert again.success
    assert ["certify_erased"] == started(again)
    names = {f"erase-{one.run_id}.json" for one in (first, last, again)}
    assert names <= {path.name for path in (tmp_path / "certificates").iterdir()}


def test_a_failed_op_is_executed_again(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock stops one log, the other is erased; the run continues from the failed op, and does not
    touch what is done.
    """
    with lock_partition(platform.log_dir, T0):
        failed = execute(platform, monkeypatch, None, **AT_ONCE)
    step, description, values = failure(failed)
    assert ("erase_records", 1) == (step, values["failed"])
    assert "t-0: LogDirLocked" in description
    assert [b"other"] == keys_in(logs_of(platform.log_dir / "u-0"))
    done = tree(platform.log_dir / "u-0")
    again = execute(platform, monkeypatch, failed.run_id)
    assert again.success
    assert STEPS[2:] == started(again)
    assert done == tree(platform.log_dir / "u-0")
    assert [b"other"] == keys_in(logs_of(platform.log_dir / "t-0"))


@pytest.mark.rotates(4)
def test_only_the_requests_that_are_named(platform: Platform) -> None:
    """By their ids; one that is not stored is refused before anything is read."""
    refused = run_erase(platform, requests=["all-1", "none"], **AT_ONCE)
    step, description, _ = failure(refused)
    assert "find_records" == step
    assert "no stored requests with the ids none." in description
    assert run_erase(platform, requests=["all-1"], **AT_ONCE).success
    assert [] == bytes_anywhere(platform.log_dir, KEYS[1].encode())
    assert [] != bytes_anywhere(platform.log_dir, KEYS[0].encode())


@pytest.mark.rotates(4)
def test_a_paused_log_is_left_and_named(platform: Platform) -> None:
    """That does not fail the erasure, but its records remain, which fails the run."""
    pause = Pause(owner="o", reason="r", since_ms=TimestampMs(NOW_MS), expires_at_ms=None)
    change_state(platform.log_dir, U0, lambda state: state.with_pause(pause))
    step, _, values = failure(run_erase(platform, **AT_ONCE))
    assert ("certify_erased", 8, 3) == (step, values["exit status"], values["records left"])
    assert {f"{platform.log_dir}/u-0/{offset:020d}.log" for offset in (0, 3)} == {
        row.data["file"] for row in values["left"].records
    }


def test_what_was_not_searched_fails_the_run(platform: Platform) -> None:
    """Exit status 9, and the place is named."""
    (platform.log_dir / "t-0/old.log.bak").write_bytes(bytes(range(256)))
    step, description, values = failure(run_erase(platform, **AT_ONCE))
    assert ("certify_erased", 9, 1) == (step, values["exit status"], values["not searched"])
    assert description.startswith("9: something that may have records")
    assert "Search what was not searched: 1 place, named below." == values["next step"]
    assert "t-0/old.log.bak" in Path(values["certificate page"]).read_text()


@pytest.mark.rotates(4)
def test_without_a_place_no_certificate_is_made(platform: Platform, tmp_path: Path) -> None:
    """The run says so."""
    path = platform.policies / "p.yml"
    lines = path.read_text().splitlines(keepends=True)
    dropped = ("  certificates:", "  signing_key:")
    path.write_text("".join(line for line in lines if not line.startswith(dropped)))
    result = run_erase(platform, **AT_ONCE)
    assert result.success
    assert "none: the policies do not say where" == shown(result, STEPS[-1])["certificate"]
    assert not (tmp_path / "certificates").exists()


@pytest.mark.rotates(4)
def test_certificates_in_a_log_directory_are_refused(platform: Platform, tmp_path: Path) -> None:
    """They would change what they are about."""
    path = platform.policies / "p.yml"
    inside = str(platform.log_dir / "certificates")
    path.write_text(path.read_text().replace(str(tmp_path / "certificates"), inside))
    step, description, _ = failure(run_erase(platform, **AT_ONCE))
    assert "certify_erased" == step
    assert "the certificates would be in a log directory" in description
    assert not Path(inside).exists()


def test_the_job_is_there_with_a_store(platform: Platform) -> None:
    """With the steps as ops; without requests there is nothing to run."""
    repository = platform_definitions(platform.resources()).get_repository_def()
    job = repository.get_job(ERASE)
    assert set(STEPS) == {node.name for node in job.nodes}
    (platform.policies / "p.yml").write_text("version: 1\n")
    repository = platform_definitions(platform.resources()).get_repository_def()
    assert ERASE not in {one.name for one in repository.get_all_jobs()}


def persons_in(bucket: Bucket) -> list[str]:
    """Which persons the newest versions have, of logs that are not compressed."""
    objects = (
        Path(bucket.url.removeprefix("file://")) / partition.directory_name / file.key
        for partition in (T0, U0)
        for file, _ in version(bucket, partition).state.files.values()
    )
    content = b"".join(each.read_bytes() for each in objects)
    return [key for key in KEYS if key.encode() in content]


@pytest.mark.rotates(4)
def test_logs_in_a_bucket(platform: Platform, tmp_path: Path) -> None:
    """They get no tombstones, and what they have is left. At once they are erased as those here:
    new versions are made; the objects of earlier ones are not searched until a purge.
    """
    bucket = Bucket.of(f"file://{tmp_path}/bucket")
    put(platform.log_dir, bucket)
    both = replace(platform, more=(f"archive={bucket.url}",))
    by_rules = run_erase(both)
    assert "certify_erased" == failure(by_rules)[0]
    assert (KEYS, 0) == (persons_in(bucket), version(bucket, T0).version)
    at_once = run_erase(both, **AT_ONCE)
    step, description, values = failure(at_once)
    assert ("certify_erased", 9) == (step, values["exit status"]), description
    assert ([], 1) == (persons_in(bucket), version(bucket, T0).version)
    assert 0 == values["records left"]
    erased = shown(at_once, "erase_records")
    assert (4, 0) == (erased["logs with records"], erased["failed"])
    for key in KEYS:
        assert [] == bytes_anywhere(platform.log_dir, key.encode())
    made_old(tmp_path / "bucket", days=8)
    drive(bucket.below("t-0"), Collect(limits_of(bucket)).run())
    drive(bucket.below("u-0"), Collect(limits_of(bucket)).run())
    assert run_erase(both, **AT_ONCE).success
    assert 1 == version(bucket, T0).version
