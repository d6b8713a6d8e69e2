"""Policies: layers, what wins, and errors that say file:line:column."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.policies import Policies, load_policies
from logwright.config.resolved import Sources, effective_pairs
from logwright.config.topic import UNKNOWN_POLICY, parse_settings
from logwright.errors import PolicyError

SHIPPED = Path(__file__).parents[3] / "dbt_like_configs"


def load(tmp_path: Path, text: str, **others: str) -> Policies:
    (tmp_path / "policies.yml").write_text(text)
    for name, content in others.items():
        (tmp_path / f"{name}.yml").write_text(content)
    return load_policies(tmp_path)


def problems(tmp_path: Path, text: str, **others: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load(tmp_path, text, **others)
    assert caught.value.exit_status == 2
    return str(caught.value).replace(f"{tmp_path}/", "").split("\n")


def pairs_of(policies: Policies, topic: str) -> dict[str, str]:
    """What the policies alone say of a topic."""
    return effective_pairs(Sources(policies=policies), topic)


def test_most_specific_wins(tmp_path: Path) -> None:
    """Config by config: the name, over patterns (later over earlier), over defaults."""
    policies = load(
        tmp_path,
        """
version: 1
topics:
  - name: a.orders
    segment.ms: 4
  - pattern: a\\..*
    segment.ms: 2
    retention.ms: 2
    delete.retention.ms: 2
  - pattern: .*orders
    segment.ms: 3
    retention.ms: 3
""",
        other="version: 1\ndefaults: {segment.ms: 1, retention.ms: 1, retention.bytes: 1}\n",
    )
    assert pairs_of(policies, "a.orders") == {
        "segment.ms": "4",
        "retention.ms": "3",
        "delete.retention.ms": "2",
        "retention.bytes": "1",
    }
    assert pairs_of(policies, "b") == {
        "segment.ms": "1",
        "retention.ms": "1",
        "retention.bytes": "1",
    }


def test_pattern_is_for_the_whole_name(tmp_path: Path) -> None:
    """A pattern that matches a part of a name only does not apply."""
    policies = load(tmp_path, "version: 1\ntopics: [{pattern: orders, segment.ms: 2}]\n")
    assert pairs_of(policies, "orders") == {"segment.ms": "2"}
    assert pairs_of(policies, "orders2") == {}


def test_a_topics_value_hides_a_brokers(tmp_path: Path) -> None:
    """A default under a broker's name gives way to a topic's value, in whatever unit."""
    policies = load(
        tmp_path,
        """
version: 1
defaults: {log.retention.hours: 1}
topics: [{name: t, retention.ms: 5}]
""",
    )
    assert parse_settings(pairs_of(policies, "t"))[0].retention_ms == 5
    assert parse_settings(pairs_of(policies, "u"))[0].retention_ms == 3_600_000


def test_internal_topics_are_as_kafka_makes_them(tmp_path: Path) -> None:
    """What Kafka sets for its own topics wins over defaults and gives way to an entry."""
    text = "version: 1\ndefaults: {cleanup.policy: delete, segment.bytes: 2000000}\n"
    policies = load(tmp_path, text)
    config = parse_settings(pairs_of(policies, "__consumer_offsets"))[0]
    assert (config.cleanup_policy, config.segment_bytes) == (("compact",), 104_857_600)
    policies = load(tmp_path, f"{text}topics: [{{pattern: __.*, segment.bytes: 3000000}}]\n")
    config = parse_settings(pairs_of(policies, "__consumer_offsets"))[0]
    assert (config.cleanup_policy, config.segment_bytes) == (("compact",), 3_000_000)
    assert parse_settings(pairs_of(Policies(), "__transaction_state"))[0].compact


def test_values_as_given(tmp_path: Path) -> None:
    """Kafka's own notation reaches Kafka's parser: no YAML types in between; a list has commas."""
    policies = load(
        tmp_path,
        """
version: 1
topics:
  - name: t
    cleanup.policy: [compact, delete]
    min.cleanable.dirty.ratio: 0.50
    preallocate: TRUE
    segment.ms: 010
    tags: [cdc]
    owner: me
""",
    )
    assert pairs_of(policies, "t") == {
        "cleanup.policy": "compact,delete",
        "min.cleanable.dirty.ratio": "0.50",
        "preallocate": "TRUE",
        "segment.ms": "010",
    }


def test_labels(tmp_path: Path) -> None:
    """Owner and severity are the most specific ones, tags those of all entries."""
    policies = load(
        tmp_path,
        """
version: 1
topics:
  - {name: t, owner: me, tags: [b]}
  - {pattern: .*, owner: all, severity: WARN, tags: [a]}
""",
    )
    labels = policies.labels_for("t")
    assert (labels.owner, labels.severity, labels.tags) == ("me", "WARN", ("a", "b"))


def test_everything_else(tmp_path: Path) -> None:
    """Log directories, high watermark, sweep and expectations are read, each with its default."""
    policies = load(
        tmp_path,
        """
version: 1
log_dirs: [/var/kafka, rel/logs]
high_watermark: end
sweep: {max_logs: 3}
expectations: {max_largest_batch_bytes: 10}
""",
    )
    assert policies.log_dirs == (Path("/var/kafka"), Path("rel/logs"))
    assert policies.high_watermark == "end"
    assert (policies.sweep.max_logs, policies.sweep.max_bytes) == (3, 68_719_476_736)
    assert policies.expectations.max_largest_batch_bytes == 10
    assert Policies().high_watermark == "checkpoint"
    assert Policies().expectations.max_largest_batch_bytes == 1_048_588


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "version: 1\ndefaults:\n  cleanup.polcy: x\n",
            (
                "policies.yml:3:3: unknown config 'cleanup.polcy': did you mean "
                "'cleanup.policy'? (got 'x')"
            ),
        ),
        (
            "version: 1\ndefaults:\n  min.cleanable.dirty.ratio: 1.3\n",
            (
                "policies.yml:3:30: min.cleanable.dirty.ratio: should be less than or equal to 1 "
                "(got '1.3')"
            ),
        ),
        (
            "version: 1\ndefaults: {log.roll.hours: 0}\n",
            "policies.yml:2:28: log.roll.hours: should be greater than or equal to 1 (got '0')",
        ),
        (
            "version: 1\ndefaults: {cleanup.policy: dedupe}\n",
            (
                "policies.yml:2:28: cleanup.policy: dedupe is an old name, "
                "Kafka 4.3 calls it compact (got 'dedupe')"
            ),
        ),
        (
            "version: 1\ntopics:\n- name: t\n  ownr: me\n",
            "policies.yml:4:3: unknown config 'ownr': did you mean 'owner'? (got 'me')",
        ),
        (
            "version: 1\ntopics:\n- name: t\n  log.roll.hours: 5\n",
            (
                "policies.yml:4:3: 'log.roll.hours' is a broker config; "
                "the topic config is 'segment.ms'"
            ),
        ),
        (
            "version: 1\ntopics:\n- {name: t, min.compaction.lag.ms: 9, max.compaction.lag.ms: 8}",
            "policies.yml:3:3: min.compaction.lag.ms=9 is above max.compaction.lag.ms=8",
        ),
        (
            "version: 1\ntopics:\n- owner: me\n",
            "policies.yml:3:3: exactly one of name and pattern is required",
        ),
        (
            "version: 1\ntopics:\n- {name: t}\n- {name: t}\n",
            "policies.yml:4:3: 'name t' already has an entry at policies.yml:3:3",
        ),
        (
            "version: 1\ntopics:\n- pattern: '['\n",
            (
                "policies.yml:3:12: pattern: not a regular expression: unterminated character set "
                "(got '[')"
            ),
        ),
        (
            "version: 1\ntopics:\n- {name: t, severity: BAD}\n",
            "policies.yml:3:23: severity: should be 'WARN' or 'ERROR' (got 'BAD')",
        ),
        (
            "version: 1\ntopics:\n- {name: t, segment.ms: }\n",
            "policies.yml:3:24: segment.ms needs a value (got None)",
        ),
        (
            "version: 1\nsweeps: {}\n",
            "policies.yml:2:1: unknown section 'sweeps', did you mean 'sweep'?",
        ),
        (
            "version: 1\nsweep: {max_log: 1}\n",
            ("policies.yml:2:9: unknown key 'max_log', did you mean 'max_logs'? (got '1')"),
        ),
        ("version: 2\n", "policies.yml:1:10: version '2' is not supported, only 1 is"),
        ("defaults: {}\n", "policies.yml:1:1: 'version: 1' is missing"),
        ("version: 1\nversion: 1\n", "policies.yml:2:1: duplicate key 'version'"),
        (
            "version: 1\ndefaults:\n  segment.ms: 1\n  segment.ms: 2\n",
            "policies.yml:4:3: duplicate",
        ),
        ("version: 1\nhigh_watermark: top\n", "policies.yml:2:17: high_watermark must be end or"),
        (
            "version: 1\nlog_dirs: [a, a]\n",
            "policies.yml:2:15: 'a' is already listed at policies.yml:2:12",
        ),
        ("version: 1\nlog_dirs: a\n", "policies.yml:2:11: expected a list (got 'a')"),
        ("- version: 1\n", "policies.yml:1:1: expected a mapping at the top level"),
        ("version: 1\ndefaults: [a\n", "policies.yml:3:1: "),
        ("version: 1\ndefaults: &x {}\nsweep: *x\n", "policies.yml:2:11: aliases are not supp"),
        ("version: !!python/name:os.system 1\n", "policies.yml:1:10: the tag"),
        ("version: 1\n---\nversion: 1\n", "policies.yml:2:1: "),
    ],
)
def test_errors_say_where(tmp_path: Path, text: str, expected: str) -> None:
    """Every error begins with file:line:column, and names the value and the nearest valid key."""
    found = problems(tmp_path, text)
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_all_problems_at_once(tmp_path: Path) -> None:
    """One run reports all problems of all files."""
    found = problems(
        tmp_path,
        "version: 1\ndefaults: {a.b: 1, segment.ms: 0}\n",
        zweites="version: 1\ndefaults: {}\nsweep: {max_logs: 0}\n",
    )
    assert [line.split(": ")[0] for line in found] == [
        "zweites.yml:2:1",
        "policies.yml:2:12",
        "policies.yml:2:32",
        "zweites.yml:3:19",
    ]


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"[" * 5000, b"#" * 1_048_577, b"version: \x00"]
)
def test_hostile_files(tmp_path: Path, content: bytes) -> None:
    """Anything but YAML of a bounded size and depth is refused as an invalid setting."""
    (tmp_path / "policies.yml").write_bytes(content)
    with pytest.raises(PolicyError, match=r"policies\.yml"):
        load_policies(tmp_path)


def test_no_policies(tmp_path: Path) -> None:
    """A directory without policies, or none at all, is a mistake."""
    with pytest.raises(PolicyError, match="no policies"):
        load_policies(tmp_path)
    with pytest.raises(PolicyError, match="not a directory"):
        load_policies(tmp_path / "absent")


@pytest.mark.parametrize(
    ("topic", "policy"),
    [
        ("cdc.inventory.customers", ("compact",)),
        ("dbserver1.inventory.orders", ("compact",)),
        ("app-store-changelog", ("compact",)),
        ("app-windowed-counts-changelog", ("compact", "delete")),
        ("__consumer_offsets", ("compact",)),
        ("__transaction_state", ("compact",)),
        ("clicks", UNKNOWN_POLICY),
    ],
)
def test_shipped_policies(topic: str, policy: tuple[str, ...]) -> None:
    """The policies that come with the project are valid and mean what their comments say."""
    policies = load_policies(SHIPPED)
    assert policy == parse_settings(pairs_of(policies, topic))[0].cleanup_policy
    assert not {"retention.ms", "retention.bytes"} & policies.defaults.keys()
    assert policies.high_watermark == "checkpoint"
    assert policies.log_dirs
