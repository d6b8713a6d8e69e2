"""Options of kafka-log: Spark's names, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.errors import PolicyError
from logwright.spark.kafka_log_options import read_options, write_options

READ = {"path": "/logs", "subscribe": "orders"}
LATEST = READ | {"view": "latest"}


def test_defaults_are_those_of_sparks_source() -> None:
    """All of a topic, and committed records only, as the command line reads a stopped log."""
    options = read_options(READ)
    assert (Path("/logs"),) == options.log_dirs
    assert ("orders",) == options.subscribe
    assert ("earliest", "latest") == (options.starting_offsets, options.ending_offsets)
    assert ("read_committed", "fail", "recorded") == (
        options.isolation_level,
        options.on_corrupt,
        options.high_watermark,
    )
    assert ("records", False, False) == (
        options.view,
        options.include_headers,
        options.push_filters,
    )


def test_names_have_no_case() -> None:
    """Spark passes them in small letters."""
    given = {
        "PATH": "/logs",
        "startingoffsets": '{"t": {"0": -2, "1": 5}}',
        "assign": '{"t":[0,1]}',
    }
    options = read_options(given)
    assert {"t": {0: -2, 1: 5}} == options.starting_offsets
    assert {"t": (0, 1)} == options.assign


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOfsets": "earliest"}, "unknown option startingOfsets.* mean startingOffsets"),
        ({"kafka.isolation.level": "x"}, "unknown option kafka.isolation.level.* isolationLevel"),
        (
            {"kafka.bootstrap.servers": "h:1"},
            "servers of the format kafka-log. Remove it: no broker",
        ),
        ({"assign": '{"orders": [0]}'}, r"exactly one of .* \(got subscribe and assign\)"),
        ({"paths": '["/a"]'}, "a log directory is required"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "startingOffsets cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "startingOffsets.* is invalid"),
        ({"startingOffsets": '{"orders": '}, "startingOffsets.* is not JSON"),
        ({"startingOffsets": "first"}, "startingOffsets=first is invalid: is not JSON"),
        (
            {"startingTimestamp": "5", "startingOffsets": "earliest"},
            "startingTimestamp and startingOffsets exclude each other",
        ),
        (
            {"endingTimestamp": "5", "endingOffsetsByTimestamp": '{"orders": {"0": 5}}'},
            "endingTimestamp and endingOffsetsByTimestamp exclude each other",
        ),
        ({"startingTimestamp": "-1"}, "startingTimestamp=-1 is invalid"),
        ({"isolationLevel": "commited"}, "isolationLevel=commited is invalid: must be 'read_"),
        ({"onCorrupt": "ignore"}, "onCorrupt=ignore is invalid"),
        ({"corruptReport": "/reports"}, "corruptReport needs onCorrupt=skip"),
        ({"highWatermark": "start"}, "highWatermark=start is invalid"),
        ({"minPartitions": "0"}, "minPartitions=0 is invalid"),
        ({"maxRecordsPerPartition": "1.5"}, "maxRecordsPerPartition=1.5 is invalid"),
        ({"includeHeaders": "yes"}, "includeHeaders=yes is invalid"),
        ({"view": "newest"}, "view=newest is invalid"),
        ({"asOfTimestamp": "5"}, "asOfTimestamp needs view=latest"),
        ({"includeTombstones": "true"}, "includeTombstones needs view=latest"),
        ({"subscribe": "a,a"}, "subscribe=a,a is invalid: duplicate item"),
    ],
)
def test_wrong_options_of_a_read(more: dict[str, str], message: str) -> None:
    """Each is refused by its name."""
    with pytest.raises(PolicyError, match=message):
        read_options(READ | more, "batch")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is not for view=latest; see asOfOffset"),
        ({"startingTimestamp": "5"}, "startingTimestamp is not for view=latest"),
        ({"minPartitions": "5"}, "minPartitions is not for view=latest"),
        ({"isolationLevel": "read_uncommitted"}, "committed records only"),
        ({"onCorrupt": "skip"}, "cannot skip corrupt batches"),
        ({"asOfOffset": '{"orders": {"0": -2}}'}, "asOfOffset cannot be earliest"),
        (
            {"asOfOffset": '{"orders": {"0": 2}}', "asOfTimestamp": "5"},
            "asOfOffset and asOfTimestamp exclude each other",
        ),
    ],
)
def test_wrong_options_of_the_latest_state(more: dict[str, str], message: str) -> None:
    """What would make another state than the latest is refused."""
    with pytest.raises(PolicyError, match=message):
        read_options(LATEST | more)


def test_what_is_read_must_be_named() -> None:
    """A path, and one of three ways to name topics."""
    with pytest.raises(PolicyError, match=r"exactly one of subscribe, .* \(got none\)"):
        read_options({"path": "/logs"})
    with pytest.raises(PolicyError, match=r"load\(LOG_DIR\)"):
        read_options({"subscribe": "orders"})
    with pytest.raises(PolicyError, match=r"not a regular expression"):
        read_options({"path": "/logs", "subscribePattern": "("})
    two = read_options({"paths": '["/a", "/b"]', "subscribe": "orders"})
    assert (Path("/a"), Path("/b")) == two.log_dirs


def test_json_is_bounded() -> None:
    """Text of a size that no log directory needs, and text that nests without end, are refused."""
    for text in ('{"t": {' + " " * 17_000_000 + "}}", "[" * 100_000):
        with pytest.raises(PolicyError, match=r"startingOffsets.* is invalid: is "):
            read_options(READ | {"startingOffsets": text})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topic": "t"}, "path"),
        ({"path": "/logs", "topics": "t"}, "unknown option topics.* mean topic"),
        ({"path": "/logs", "partitions": "3"}, "partitions needs topic"),
        ({"path": "/logs", "ingestId": "x"}, "ingestId needs topic"),
        ({"path": "/logs", "topic": "t", "compression": "lzo"}, "compression=lzo is invalid"),
        ({"path": "/logs", "topic": "t", "configs": "x"}, "unknown option configs"),
        ({"path": "/logs", "topic": "t", "batchSize": "0"}, "batchSize=0 is invalid"),
    ],
)
def test_wrong_options_of_a_write(given: dict[str, str], message: str) -> None:
    """Each is refused by its name."""
    with pytest.raises(PolicyError, match=message):
        write_options(given)


def test_settings_of_the_topic_are_options() -> None:
    """By the config's name after ``config.``; the others stay what they are."""
    options = write_options({"path": "/l", "topic": "t", "config.cleanup.policy": "compact"})
    assert {"cleanup.policy": "compact"} == options.configs
    assert ("t", "none", 16_384) == (options.topic, options.compression, options.batch_size)
