"""What `logwright clean` leaves is what the cleaner of the same Kafka left, by the same clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from logwright.cli.main import main
from logwright.format.names import TopicPartition
from logwright.spark.session import local_session
from logwright.state.store import read_state
from tests import fixtures
from tests.comparison import compare_checkpoints

PARTITION = TopicPartition("t", 0)
FAILED = ("decompressed-clean-part", "decompressed-dirty", "decompressed-one-over")
"""Cases in which Kafka's cleaner failed, by ``max.decompressed.message.bytes``."""

CASES = [
    (name, partition.name)
    for name in (*fixtures.CASES, *fixtures.CASES_OF_4_4)
    if fixtures.description(name)["ops"] == ["clean"] and name not in {"md5-collision", *FAILED}
    for partition in fixtures.partitions(name)
]
"""Every case in which Kafka did nothing but clean, by partition; md5-collision and those in which
the cleaning failed have tests of their own.
"""


def run(*arguments: str) -> Result:
    """The command line, in this process."""
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def clean_and_purge(name: str, partition: str, log_dir: Path, *options: str) -> None:
    """Clean as the case says, then purge when the deletion delay is over."""
    case = fixtures.description(name)
    cleaned = run("clean", str(log_dir), partition, "--yes", *options)
    assert 0 == cleaned.exit_code, cleaned.output
    later = str(case["now"] + 60_000)
    settings = fixtures.settings(name, partition)
    purged = run("purge", str(log_dir), partition, *settings, "--now", later, "--yes")
    assert 0 == purged.exit_code, purged.output
    left = [path.name for path in (log_dir / partition).iterdir()]
    assert [] == [each for each in left if each.endswith((".deleted", ".cleaned", ".swap"))]
    assert ".logwright" not in left


@pytest.fixture(scope="module")
def spark() -> Iterator[None]:
    """One session, which all commands of this module find and use."""
    with local_session():
        yield


ENGINES = ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.rotates(6)])]


@pytest.mark.oracle
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("name", "partition"), CASES)
def test_the_outcome_is_kafkas(
    name: str, partition: str, engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Segments, indexes, checkpoints and modification times: no difference."""
    if engine == "spark":
        request.getfixturevalue("spark")
    log_dir = fixtures.copy_before(name, tmp_path)
    options = fixtures.clean_arguments(name, partition)
    clean_and_purge(name, partition, log_dir, "--engine", engine, *options)
    assert [] == fixtures.compare_after(name, log_dir, only=partition)


DECLARED = {
    "first-dirty-in-skipped-batch": "all keys in one cleaning",
    "partial-map-aborted-batch-emptied": "all keys in one cleaning",
    "partial-map-aborted-batch-gone": "all keys in one cleaning",
    "small-buffer": "all keys in one cleaning",
    "small-buffer-one": "all keys in one cleaning",
    "txn-4-expired": "an idle active segment was rolled",
}
"""Cases in which the declared differences show without --like-kafka, and by which name."""


@pytest.mark.oracle
@pytest.mark.rotates(4)
@pytest.mark.parametrize(("name", "partition"), CASES)
def test_without_like_kafka_only_the_declared_differences_show(
    name: str, partition: str, tmp_path: Path
) -> None:
    """An idle active segment is rolled when it is due, a small map does not end a cleaning; nothing
    else differs.
    """
    log_dir = fixtures.copy_before(name, tmp_path)
    arguments = fixtures.clean_arguments(name, partition)
    options = [each for each in arguments if each != "--like-kafka"]
    clean_and_purge(name, partition, log_dir, *options)
    differences = fixtures.compare_after(name, log_dir, only=partition)
    shown = _declared_name(name, log_dir / partition, differences) if differences else None
    assert DECLARED.get(name) == shown


def test_each_declared_difference_has_a_case() -> None:
    """Of one partition, so that the case alone says where it shows."""
    partitions = Counter(name for name, _ in CASES)
    assert dict.fromkeys(DECLARED, 1) == {name: partitions[name] for name in DECLARED}


def _declared_name(name: str, directory: Path, differences: list[str]) -> str:
    case = fixtures.description(name)
    active = max(int(path.stem) for path in directory.glob("*.log"))
    if active > case["loaded"]["activeSegment"]:
        return "an idle active segment was rolled"
    if case["dedupeBuffer"] < 1_000_000:
        return "all keys in one cleaning"
    return f"undeclared: {differences[:3]}"


@pytest.mark.oracle
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize("name", FAILED)
def test_a_record_above_the_limit_stops_the_cleaning(
    name: str, engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Where Kafka's cleaner fails, ours does too, by name, and the log is as it was; for Kafka 4.3,
    too: a patch release of it has the limit.
    """
    if engine == "spark":
        request.getfixturevalue("spark")
    (result,) = fixtures.description(name)["results"]
    limit = fixtures.partition_of(name).config["max.decompressed.message.bytes"]
    assert f"exceeds the configured maximum record size of {limit}" in result["failed"]
    log_dir = fixtures.copy_before(name, tmp_path)
    before = contents(log_dir / "t-0")
    arguments = fixtures.clean_arguments(name)
    cleaned = run("clean", str(log_dir), "t-0", "--engine", engine, *arguments)
    assert 3 == cleaned.exit_code, cleaned.output
    assert f"max.decompressed.message.bytes={limit}" in cleaned.output
    assert before == contents(log_dir / "t-0")
    assert [] == compare_checkpoints(fixtures.case_dir(name) / "before", log_dir)
    assert "RecordAboveLimit" == read_state(log_dir)[PARTITION].quarantine.cause
    arguments[arguments.index("4.4")] = "4.3"
    older = fixtures.copy_before(name, tmp_path / "older")
    refused = run("clean", str(older), "t-0", "--yes", *arguments)
    assert 3 == refused.exit_code
    assert f"max.decompressed.message.bytes={limit}" in refused.output


def contents(directory: Path) -> dict[str, bytes]:
    """The files of a partition that a broker would read."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def test_both_keys_of_an_md5_collision_survive(tmp_path: Path) -> None:
    """Kafka merges two keys with one MD5 and loses a live record; that is not taken over, even
    --like-kafka.
    """
    log_dir = fixtures.copy_before("md5-collision", tmp_path)
    clean_and_purge("md5-collision", "t-0", log_dir, *fixtures.clean_arguments("md5-collision"))
    dump = run("dump", str(log_dir), "t-0").output
    before = run("dump", str(fixtures.case_dir("md5-collision") / "before"), "t-0").output
    assert _keys(before) == _keys(dump)
    assert 2 <= len(_keys(dump))


def _keys(dump: str) -> set[str]:
    return {part.split('"')[0] for part in dump.split('"key":"')[1:]}
