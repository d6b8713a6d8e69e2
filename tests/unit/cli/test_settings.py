"""Where a topic's settings come from, and what a command does with a topic whose settings are
unknown.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log_builder import START_MS, LogBuilder
from tests.metadata_builder import MetadataBuilder, config, partition, topic, uuid_text
from tests.unit.cli.conftest import Answer, Call

MONTH_MS = 30 * 24 * 3600 * 1000
NOW = START_MS + MONTH_MS
NAMES = ("t", "u")
IDS = {"t": 1, "u": 2}
POLICY = "cleanup.policy"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two topics of two old segments each; the directory belongs to node 1."""
    log_dir = tmp_path / "kafka-logs"
    for name in NAMES:
        log = LogBuilder(log_dir, f"{name}-0")
        for base in (0, 2):
            log.segment(base).batch(base, [("a", "1"), ("b", "2")])
        log.segment(4).batch(4, [("c", "3")])
        log.write()
        text = f"version: 0\ntopic_id: {uuid_text(IDS[name])}"
        (log.directory / "partition.metadata").write_text(text)
    ids = "version=1\ncluster.id=c\nnode.id=1\n"
    (log_dir / "meta.properties").write_text(ids)
    return log_dir


def metadata(log_dir: Path, *configs: tuple[str, str, str], strays: bool = False) -> Path:
    """The cluster's metadata in a log directory: both topics, and these topic configs."""
    records = [topic("t", 1), partition(1, 0, [1])]
    if not strays:
        records += [topic("u", 2), partition(2, 0, [1])]
    builder = MetadataBuilder(log_dir)
    builder.segment(0, records, [config(2, *one) for one in configs])
    return builder.path


def damage(path: Path) -> Path:
    """A record of the metadata's first batch is not what its CRC says; the file."""
    first = path / f"{0:020d}.log"
    content = bytearray(first.read_bytes())
    content[70] ^= 1
    first.write_bytes(bytes(content))
    return first


def policies(directory: Path, topics: str, defaults: str = "{}") -> tuple[str, Path]:
    """``--policies`` with these entries."""
    directory.mkdir(exist_ok=True)
    text = f"version: 1\ndefaults: {defaults}\ntopics: {topics}\n"
    (directory / "topics.yml").write_text(text)
    return "--policies", directory


def retain(call: Call, log_dir: Path, *words: str | Path) -> Answer:
    return call("retain", log_dir, *words, "--yes", "--now", NOW, "--high-watermark", "end")


def segments(log_dir: Path, name: str) -> list[int]:
    """Base offsets of a topic's segments."""
    return sorted(int(path.stem) for path in (log_dir / f"{name}-0").glob("*.log"))


KEPT, GONE = [0, 2, 4], [5]


@pytest.mark.parametrize("command", ["retain", "clean"])
@pytest.mark.parametrize("named", [(), ("t-0",)])
def test_what_nothing_says_is_not_maintained(
    call: Call, log_dir: Path, command: str, named: tuple[str, ...]
) -> None:
    """Without metadata and policies nothing goes, the status is 2, and it says the three ways."""
    before = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    answer = call(command, log_dir, *named, "--yes", "--now", NOW)
    assert 2 == answer.status
    for way in ("--metadata", "topics.yml", "--config cleanup.policy="):
        assert way in answer.err
    after = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    assert before == {path: content for path, content in after.items() if path in before}
    assert set() == {path.name for path in after.keys() - before.keys()} - {".lock"}


def test_what_is_known_is_maintained(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """Next to it the other topic is skipped, unless it is named."""
    entry = policies(tmp_path / "p", "[{name: t, cleanup.policy: delete, retention.ms: 1}]")
    answer = retain(call, log_dir, *entry)
    assert 0 == answer.status
    assert "u-0: skipped: its cleanup.policy is unknown" in answer.err
    assert (GONE, KEPT) == (segments(log_dir, "t"), segments(log_dir, "u"))
    assert 2 == retain(call, log_dir, "u-0", *entry).status
    assert KEPT == segments(log_dir, "u")


def test_plan_shows_what_is_unknown(call: Call, log_dir: Path) -> None:
    """It works, and nothing is due."""
    answer = call("plan", log_dir, "--now", NOW, "--output", "json")
    assert 0 == answer.status
    plans = [line for line in answer.lines if "topicPartition" in line]
    assert ["unknown", "unknown"] == [line["cleanupPolicy"] for line in plans]
    assert [(False, False)] * 2 == [(line["clean"], line["roll"]["due"]) for line in plans]
    assert "unknown" in call("plan", log_dir, "--now", NOW).out


@pytest.mark.parametrize("place", ["inside", "next to", "named"])
def test_the_cluster_says_it(call: Call, log_dir: Path, tmp_path: Path, place: str) -> None:
    """Metadata is found in the directory or in a sibling of the same node, or is named."""
    home = {"inside": log_dir, "next to": tmp_path / "first", "named": tmp_path / "x" / "y"}[place]
    path = metadata(home, ("t", POLICY, "compact"), ("u", "retention.ms", "1"))
    (home / "meta.properties").write_bytes((log_dir / "meta.properties").read_bytes())
    words = ("--metadata", path) if place == "named" else ()
    answer = retain(call, log_dir, *words)
    assert 0 == answer.status, answer.err
    assert (KEPT, GONE) == (segments(log_dir, "t"), segments(log_dir, "u"))


def test_metadata_of_another_node_is_not_used(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """A sibling directory of another broker says nothing."""
    metadata(tmp_path / "first", ("u", "retention.ms", "1"))
    (tmp_path / "first" / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=2\n")
    assert 2 == retain(call, log_dir).status


def test_damaged_metadata_is_refused_by_name(call: Call, log_dir: Path) -> None:
    """Nothing goes; --no-metadata ignores it, and then the settings are unknown."""
    path = damage(metadata(log_dir, ("u", "retention.ms", "1")))
    answer = retain(call, log_dir)
    assert 3 == answer.status
    assert f"{path} at byte 0" in answer.err
    assert "--no-metadata" in answer.err
    assert 2 == retain(call, log_dir, "--no-metadata").status
    assert KEPT == segments(log_dir, "u")
    words = ("--no-metadata", "--config", "retention.ms=1", "--config", "cleanup.policy=delete")
    assert 0 == retain(call, log_dir, "u-0", *words).status
    assert GONE == segments(log_dir, "u")


@pytest.mark.parametrize(("override", "left"), [("false", KEPT), ("true", GONE)])
def test_an_entry_that_disagrees_deletes_nothing_alone(
    call: Call, log_dir: Path, tmp_path: Path, override: str, left: list[int]
) -> None:
    """What the cluster keeps goes only by an entry with ``override: true``; it is said."""
    metadata(log_dir, ("t", POLICY, "compact"))
    entry = policies(
        tmp_path / "p",
        f"[{{name: t, cleanup.policy: delete, retention.ms: 1, override: {override}}}]",
    )
    answer = retain(call, log_dir, "t-0", *entry)
    assert 0 == answer.status, answer.err
    assert left == segments(log_dir, "t")
    assert f"t: cleanup.policy=delete ({tmp_path / 'p' / 'topics.yml'}:" in answer.err
    assert "but the cluster has cleanup.policy=compact" in answer.err


def test_the_command_line_wins(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """``--config`` goes before an entry and before the cluster."""
    metadata(log_dir, ("t", POLICY, "compact"))
    entry = policies(tmp_path / "p", "[{name: t, cleanup.policy: compact}]")
    words = ("--config", "cleanup.policy=delete", "--config", "retention.ms=1")
    assert 0 == retain(call, log_dir, "t-0", *entry, *words).status
    assert GONE == segments(log_dir, "t")


def test_config_names_each_origin(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """The command line, an entry, the topic, server.properties, the defaults, Kafka's default."""
    metadata(log_dir, ("t", "retention.bytes", "5"), ("t", POLICY, "compact"))
    server = tmp_path / "server.properties"
    server.write_text("log.segment.bytes=2000000\n")
    answer = call(
        "config",
        log_dir,
        "t",
        *policies(tmp_path / "p", "[{name: t, segment.ms: 7}]", "{flush.ms: 9}"),
        *("--server-properties", server, "--config", "flush.messages=3", "--output", "json"),
    )
    assert 0 == answer.status, answer.err
    (line,) = answer.lines
    configs = {name: (one["value"], one["origin"]) for name, one in line["configs"].items()}
    assert "t" == line["topic"]
    expected = {
        "flush.messages": ("3", "command line"),
        "segment.ms": ("7", "policy"),
        "cleanup.policy": ("compact", "topic"),
        "retention.bytes": ("5", "topic"),
        "segment.bytes": ("2000000", "server.properties"),
        "flush.ms": ("9", "policy"),
        "retention.ms": ("604800000", "default"),
    }
    assert expected == {name: configs[name] for name in expected}
    text = call("config", log_dir, "--server-properties", server)
    assert f"{server}:1" in text.out
    assert "at offset 4" in text.out


@pytest.mark.parametrize("command", ["retain", "clean", "roll"])
def test_strays_are_left_alone(call: Call, log_dir: Path, command: str) -> None:
    """A log whose topic id is of no topic is not changed, named it is refused; --force works."""
    metadata(log_dir, ("t", POLICY, "compact"), strays=True)
    before = segments(log_dir, "u")
    words = (command, log_dir, "--yes", "--now", NOW)
    answer = call(*words, "--config", "cleanup.policy=compact,delete")
    assert 0 == answer.status, answer.err
    assert (
        f"u-0: skipped: stray: its topic id {uuid_text(2)} is unknown to the cluster" in answer.err
    )
    named = call(*words, "u-0", "--config", "cleanup.policy=compact,delete")
    assert 5 == named.status
    assert before == segments(log_dir, "u")
    forced = call(*words, "u-0", "--config", "cleanup.policy=compact,delete", "--force")
    assert 0 == forced.status, forced.err
    assert before != segments(log_dir, "u")


@pytest.mark.parametrize("command", ["retain", "clean", "roll", "plan"])
def test_a_topic_with_tiered_storage_stops_no_other(
    call: Call, log_dir: Path, command: str
) -> None:
    """No setting is invalid: it is not handled (4), in one line, and the others are maintained."""
    metadata(log_dir, ("t", "remote.storage.enable", "true"), ("u", "retention.ms", "1"))
    changing = () if command == "plan" else ("--yes",)
    answer = call(command, log_dir, *changing, "--now", NOW, "--output", "json")
    assert 4 == answer.status
    assert 1 == answer.err.count("Error: t-0: remote.storage.enable=true")
    done = [line["topicPartition"] for line in answer.lines if "topicPartition" in line]
    assert {"t-0", "u-0"} == set(done)
    assert KEPT == segments(log_dir, "t")
    assert (GONE if command == "retain" else KEPT) == segments(log_dir, "u")[:3]


@pytest.mark.parametrize("command", ["retain", "clean", "plan"])
def test_plans_name_the_metadata_and_what_disagrees(
    call: Call, log_dir: Path, tmp_path: Path, command: str
) -> None:
    """Cluster, offset and snapshot, and both values with their places; nothing without metadata."""
    entry = policies(tmp_path / "p", "[{pattern: t, cleanup.policy: delete, retention.ms: 1}]")
    words = (command, log_dir, *entry, "--now", NOW, "--output", "json")
    dry = () if command == "plan" else ("--dry-run",)
    assert not [line for line in call(*words, *dry).lines if "metadata" in line]
    path = metadata(log_dir, ("t", POLICY, "compact"))
    answer = call(*words, *dry)
    assert 0 == answer.status, answer.err
    (line,) = (line for line in answer.lines if "metadata" in line)
    expected = {"path": str(path), "clusterId": "c", "endOffset": 5, "snapshot": None}
    assert expected == line["metadata"]
    assert f"the metadata of cluster c up to offset 5, from {path}" in answer.err
    names = [(one["topic"], one["name"], one["override"]) for one in line["disagreements"]]
    assert [("t", POLICY, False), ("t", "retention.ms", False)] == names
    first = line["disagreements"][0]
    assert ("delete", "compact") == (first["entry"]["value"], first["cluster"]["value"])
    assert first["cluster"]["where"].endswith("at offset 4")


@pytest.mark.parametrize("words", [("plan",), ("config",)])
def test_metadata_without_an_id_of_its_cluster(
    call: Call, log_dir: Path, words: tuple[str, ...]
) -> None:
    """The message says what is not known: nothing next to the metadata names its cluster."""
    path = metadata(log_dir, ("t", POLICY, "compact"))
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\n")
    answer = call(*words, log_dir)
    assert 0 == answer.status, answer.err
    shown = (answer.out + answer.err).lower()
    assert f"the metadata of a cluster of unknown id up to offset 5, from {path}".lower() in shown
    assert "cluster none" not in shown


def test_inspect_shows_policies_and_strays(call: Call, log_dir: Path) -> None:
    """Without metadata the policy is unknown; with damaged metadata the rest is shown all the
    same.
    """

    def shown() -> dict[str, tuple[object, object]]:
        answer = call("inspect", log_dir, "--output", "json")
        assert 0 == answer.status, answer.err
        lines = [line for line in answer.lines if "segments" in line]
        return {one["topicPartition"]: (one["cleanupPolicy"], one["stray"]) for one in lines}

    assert {"t-0": ("unknown", None), "u-0": ("unknown", None)} == shown()
    path = metadata(log_dir, ("t", POLICY, "compact"), strays=True)
    reason = f"its topic id {uuid_text(2)} is unknown to the cluster"
    assert {"t-0": ("compact", None), "u-0": ("unknown", reason)} == shown()
    rows = call("inspect", log_dir).out.splitlines()
    (row,) = [line for line in rows if line.startswith("u-0 ")]
    assert row.endswith(f" stray: {reason}")
    text = call("inspect", log_dir, "--verbose").out
    for line in ("  cleanup.policy: compact", "  cleanup.policy: unknown", f"  stray: {reason}"):
        assert line in text.splitlines()
    damage(path)
    assert {"t-0": (None, None), "u-0": (None, None)} == shown()
    assert "Settings cannot be read" in call("inspect", log_dir).err


HOUR_MS = 3_600_000
LONG = (
    "[{name: t, cleanup.policy: compact, min.cleanable.dirty.ratio: 0,"
    f" file.delete.delay.ms: {HOUR_MS}}}]"
)


def retired(log_dir: Path) -> list[Path]:
    return sorted(log_dir.glob("t-0*/*.deleted"))


def test_the_policies_of_the_environment(
    call: Call, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command with --policies reads LOGWRIGHT_POLICIES, as the platform does, and says so in
    a line; --policies wins. Broken ones are refused as if they had been given.
    """
    option, here = policies(tmp_path / "here", LONG)
    _, there = policies(tmp_path / "there", "[{name: t, cleanup.policy: compact}]")
    words = ("config", log_dir, "t", "--no-metadata", "--output", "json")
    given = call(*words, option, here)
    assert "LOGWRIGHT_POLICIES" not in given.err
    monkeypatch.setenv("LOGWRIGHT_POLICIES", str(here))
    answer = call(*words)
    assert given.out == answer.out
    assert str(here) in answer.out
    line = f"The policies are those of LOGWRIGHT_POLICIES: {here}"
    assert [line] == [each for each in answer.err.splitlines() if "LOGWRIGHT_POLICIES" in each]
    assert line in call("metrics", log_dir).err.splitlines()
    other = call(*words, option, there)
    assert "LOGWRIGHT_POLICIES" not in other.err
    assert str(here) not in other.out
    monkeypatch.setenv("LOGWRIGHT_POLICIES", str(tmp_path / "nothing"))
    refused = call(*words)
    assert (2, True) == (refused.status, "LOGWRIGHT_POLICIES" in refused.err)
    monkeypatch.setenv("LOGWRIGHT_POLICIES", "")
    assert "LOGWRIGHT_POLICIES" not in call(*words).err


@pytest.mark.parametrize("command", ["clean", "retain"])
def test_a_purge_without_the_policies_keeps_what_they_keep(
    call: Call, log_dir: Path, tmp_path: Path, command: str
) -> None:
    """What was retired with policies that keep it for an hour is not purged earlier by a purge
    that does not know them: an undo works until then. What --config says is done.
    """
    with_policies = policies(
        tmp_path / "policies",
        LONG if command == "clean" else LONG.replace("compact", "delete, retention.ms: 1"),
    )
    at = ("--now", NOW, "--yes", "--no-metadata")
    assert 0 == call(command, log_dir, "t-0", *with_policies, *at).status
    files = retired(log_dir)
    assert files
    purge = ("purge", log_dir, "--yes", "--no-metadata", "--output", "json", "--now")
    early = call(*purge, NOW + HOUR_MS - 1)
    (line,) = [line for line in early.lines if line["topicPartition"] == "t-0"]
    assert {NOW + HOUR_MS} == {file["dueAtMs"] for file in line["pending"]}
    assert files == retired(log_dir)
    plan = call("plan", log_dir, "t-0", "--no-metadata", "--now", NOW + HOUR_MS - 1)
    assert "purge removes" not in plan.out
    assert 0 == call("undo", log_dir, "t-0", "--yes").status
    assert 0 == call(command, log_dir, "t-0", *with_policies, *at).status
    assert retired(log_dir)
    minute = ("--config", "file.delete.delay.ms=60000")
    shown = call("plan", log_dir, "t-0", "--no-metadata", *minute, "--now", NOW + 60_000)
    assert "purge removes" in shown.out
    assert 0 == call(*purge, NOW + 60_000, *minute).status
    assert [] == [path for path in retired(log_dir) if path in files]


def test_a_deleted_log_is_kept_as_long_as_the_policies_keep_it(
    call: Call, log_dir: Path, tmp_path: Path
) -> None:
    """By the broker's delay of the deletion, unless --config says another one."""
    delay = f"{{log.segment.delete.delay.ms: {HOUR_MS}}}"
    option, path = policies(tmp_path / "policies", LONG, delay)
    at = ("--now", NOW, "--yes", "--no-metadata")
    assert 0 == call("delete", log_dir, "t-0", option, path, *at).status
    purge = ("purge", log_dir, "--yes", "--no-metadata", "--now")
    early = call(*purge, NOW + HOUR_MS - 1)
    assert "log.segment.delete.delay.ms is 1 h" in early.out
    assert 1 == len(list(log_dir.glob("t-0.*-delete")))
    minute = ("--config", "log.segment.delete.delay.ms=60000")
    assert 0 == call(*purge, NOW + 60_000, *minute).status
    assert [] == list(log_dir.glob("t-0.*-delete"))
