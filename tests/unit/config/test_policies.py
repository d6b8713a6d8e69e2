"""Policies: layers, what wins, and errors that say file:line:column."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from logwright.config.policies import Policies, check_policies, load_policies
from logwright.config.resolved import Sources, effective_pairs
from logwright.config.topic import UNKNOWN_POLICY, parse_settings
from logwright.errors import PolicyError
from tests.differential.random_configs import our_verdict, random_configs

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
log_dirs: [/var/kafka, rel/logs, s3://a/b, c=s3://a/d]
high_watermark: end
sweep: {max_logs: 3}
expectations: {max_largest_batch_bytes: 10}
""",
    )
    here = (Path("/var/kafka"), Path("rel/logs"))
    assert policies.log_dirs == (*here, "s3://a/b", "c=s3://a/d")
    assert policies.high_watermark == "end"
    assert (policies.sweep.max_logs, policies.sweep.max_bytes) == (3, 68_719_476_736)
    assert policies.expectations.max_largest_batch_bytes == 10
    assert Policies().high_watermark == "checkpoint"
    assert Policies().expectations.max_largest_batch_bytes == 1_048_588


def test_all_problems_at_once(tmp_path: Path) -> None:
    """One run reports all problems of all files, sorted; a file that is not YAML hides no other."""
    sentences = problems(
        tmp_path,
        "version: 1\ndefaults: {sgment.ms: 1, segment.ms: 0}\n",
        a="version: 1\nlog_dirs: [\n",
        zweites="version: 1\ndefaults: {segment.ms: x}\nsweep: {max_logs: 0}\n",
    )
    assert [
        "a.yml:2:11: '[' is not closed",
        "policies.yml:2:12: defaults.sgment.ms: unknown key (got '1'); did you mean 'segment.ms'?",
        "policies.yml:2:38: defaults.segment.ms: must be greater than or equal to 1 (got '0')",
        "zweites.yml:2:1: defaults: is already defined at policies.yml:2:1",
        "zweites.yml:2:24: defaults.segment.ms: not a whole number (got 'x')",
        "zweites.yml:3:19: sweep.max_logs: must be greater than or equal to 1 (got '0')",
    ] == sentences


def test_every_section_is_in_one_file(tmp_path: Path) -> None:
    """Its second place is a problem, and what stands there is checked; ``topics`` are gathered."""
    second = "version: 1\nsweep: {max_log: 1}\nhigh_watermark: x\ntopics: [{name: u}]\n"
    first = "version: 1\nsweep: {}\nhigh_watermark: end\ntopics: [{name: t}]\n"
    assert [
        "z.yml:2:1: sweep: is already defined at policies.yml:2:1",
        "z.yml:2:9: sweep.max_log: unknown key (got '1'); did you mean 'max_logs'?",
        "z.yml:3:1: high_watermark: is already defined at policies.yml:3:1",
    ] == problems(tmp_path, first, z=second)
    policies = load(tmp_path, first, z="version: 1\ntopics: [{name: u}]\n")
    assert ["t", "u"] == [each.labels.name for each in policies.topics]


def test_what_is_a_file_of_policies(tmp_path: Path) -> None:
    """A link to a file is one; what cannot be read is a problem; hidden files are ignored."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "defaults").write_text("version: 1\ndefaults: {segment.ms: 5}\n")
    directory = tmp_path / "policies"
    directory.mkdir()
    (directory / "linked.yml").symlink_to(source / "defaults")
    (directory / ".hidden.yml").write_text("not for us")
    (directory / "README.md").write_text("not for us")
    assert {"segment.ms": "5"} == load_policies(directory).defaults
    (directory / "directory.yaml").mkdir()
    (directory / "gone.yml").symlink_to(source / "gone")
    os.mkfifo(directory / "pipe.yml")
    assert [
        f"{directory}/{name}:1:1: is not a file, or a link to nothing"
        for name in ("directory.yaml", "gone.yml", "pipe.yml")
    ] == [str(one) for one in check_policies(directory).problems]


def test_a_byte_order_mark(tmp_path: Path) -> None:
    """An editor's mark at the beginning changes nothing."""
    assert {"segment.ms": "5"} == load(
        tmp_path, "\ufeffversion: 1\ndefaults: {segment.ms: 5}\n"
    ).defaults


def test_many_problems(tmp_path: Path) -> None:
    """The check has all of them, the error of a run the first thousand."""
    lines = "".join(f"  wrong.{number}: 1\n" for number in range(1_005))
    sentences = problems(tmp_path, f"version: 1\ndefaults:\n{lines}")
    assert [1_001, "… and 5 more problems"] == [len(sentences), sentences[-1]]
    assert 1_005 == len(check_policies(tmp_path).problems)


def test_settings_without_effect(tmp_path: Path) -> None:
    """Each is a warning at its key, with the reason; the policies are valid."""
    load(
        tmp_path,
        """
version: 1
defaults:
  log.dirs: /data
  log.cleaner.backoff.ms: 5
  num.recovery.threads.per.data.dir: 2
  log.retention.check.interval.ms: 60000
  log.local.retention.ms: 5
topics:
  - {name: t, segment.ms: 5, flush.ms: 5}
""",
    )
    checked = check_policies(tmp_path)
    assert checked.policies is not None
    assert [
        "4:3: defaults.log.dirs: no effect: the section log_dirs lists the log directories",
        "5:3: defaults.log.cleaner.backoff.ms: no effect: the sensor's interval applies instead",
        "6:3: defaults.num.recovery.threads.per.data.dir: no effect: only a running broker uses it",
        "8:3: defaults.log.local.retention.ms: no effect: it is for tiered storage",
        "10:30: topics[t].flush.ms: no effect: only a running broker uses it",
    ] == [str(one).removeprefix(f"{tmp_path}/policies.yml:") for one in checked.warnings]


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
    assert policies.log_dirs == ()


def test_entries_are_judged_as_configs_are(tmp_path: Path, seed: int) -> None:
    """Random configs, which tests/differential compares with Kafka's verdict: as entries of
    ``topics`` the same ones are refused, each at its own line.
    """
    configs = list(random_configs(seed, 500))
    entries = [
        json.dumps({"name": f"t{number}"} | pairs, ensure_ascii=False)
        for number, pairs in enumerate(configs)
    ]
    lines = "".join(f"  - {entry}\n" for entry in entries)
    (tmp_path / "topics.yml").write_text(f"version: 1\ntopics:\n{lines}", newline="\n")
    broken = {one.mark.line - 3 for one in check_policies(tmp_path).problems}
    assert broken == {
        number for number, pairs in enumerate(configs) if our_verdict(pairs) is not None
    }
    assert 100 < len(broken) < 400
