"""The newest patch release of each Kafka line has the classes and configs that were read, or what
it changes of them was looked at (`tests.kafka_releases`).
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.config.kafka_version import BY_NAME, VERSIONS, KafkaVersion, unknown_configs
from logwright.config.topic import TOPIC_NAMES
from tests import kafka_releases, oracle_runner
from tests.differential.random_configs import our_verdict
from tests.kafka_releases import Difference, differences, line_of, not_looked_at, recorded
from tests.tidy.trees import modules

READ = kafka_releases.read_releases()
LINES = sorted(READ)
PATCHED = "max.decompressed.message.bytes"
NOT_OF_KAFKA = {
    "CommitFailedException": "of Iceberg",
    "KafkaApis": "its answers, which tests ask real brokers for",
    "KafkaConsumer": "a word for a reader",
    "LongSerializer": "an example of a value's format",
    "ProducerState": "a class of logwright",
}
"""Names of Kafka's classes in the sources that are not the source of a rule; nor are exceptions."""


def topic_names(release: str) -> set[str]:
    """The names of the topic configs that a release has."""
    names = (name.partition("topic ")[2] for name in recorded(release))
    return {name for name in names if name}


def test_what_was_read_is_recorded() -> None:
    """Each Kafka that is known, and that whose code the tests run, and the line before."""
    pom = (oracle_runner.PROJECT / "pom.xml").read_text()
    run = set(re.findall(r"<kafka\.version>([\d.]+)</kafka\.version>", pom))
    assert {"4.3.0", "4.4.0"} == run
    assert run <= set(READ.values())
    assert ["4.2", *(version.name for version in VERSIONS)] == LINES


def test_each_kind_of_difference_is_named() -> None:
    """A class that came, went or has other code; a config with another default."""
    before = {"a.Gone": "1", "a.Other": "1", "a.Same": "1", "topic x.ms": "LONG 1 null"}
    after = {"a.New": "1", "a.Other": "2", "a.Same": "1", "topic x.ms": "LONG 2 null"}
    changed = differences(before, after)
    assert [
        "a.Gone went",
        "a.New came",
        "a.Other",
        "topic x.ms was LONG 1 null, is LONG 2 null",
    ] == [str(difference) for difference in changed]
    assert [] == differences(before, before)


def test_what_was_looked_at_is_one_value_in_one_line() -> None:
    """Another value of the same class, or the same of another line, was not looked at."""
    changed = [Difference("a.Other", "1", "2")]
    assert [] == not_looked_at("4.3.3", changed, {("4.3.2", "a.Other", "2")})
    assert changed == not_looked_at("4.3.3", changed, {("4.3.2", "a.Other", "3")})
    assert changed == not_looked_at("4.3.3", changed, {("4.4.1", "a.Other", "2")})
    assert changed == not_looked_at("4.3.3", changed, {("4.3.2", "a.New", "2")})


def test_known_changes_between_lines_are_found() -> None:
    """Kafka 4.4 has another cleaner (KAFKA-20452) and more configs."""
    named = {str(difference) for difference in differences(recorded("4.3.0"), recorded("4.4.0"))}
    cleaner = "org.apache.kafka.storage.internals.log.Cleaner"
    assert {cleaner, f"topic {PATCHED} came", "topic remote.copy.lag.ms came"} <= named


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_a_lines_topic_configs_are_known(version: KafkaVersion) -> None:
    """Those of the release that was read, and what patch releases have besides."""
    read = topic_names(READ[version.name])
    assert TOPIC_NAMES - unknown_configs(version) - version.patch_configs == read


def test_a_patch_release_has_what_is_said_of_it() -> None:
    """4.2.2 has it, 4.3.0 has not, and in 4.4.0 it is the same config."""
    name = f"topic {PATCHED}"
    assert recorded("4.4.0")[name] == recorded("4.2.2")[name]
    assert name not in recorded("4.3.0")
    assert {PATCHED} == BY_NAME["4.3"].patch_configs


@pytest.mark.oracle
@pytest.mark.nightly
@pytest.mark.parametrize("release", READ.values())
def test_a_record_is_of_its_release(release: str) -> None:
    """The jars give what is recorded: if not, nothing below is compared with what was read."""
    assert [] == differences(recorded(release), kafka_releases.digests(release))


@pytest.mark.oracle
@pytest.mark.nightly
@pytest.mark.parametrize("line", LINES)
def test_the_newest_patch_release(
    line: str, record_property: Callable[[str, object], None]
) -> None:
    """It changes nothing that was not looked at.

    After a failure: ``python -m tests.kafka_releases show READ NEWEST`` prints the members. If a
    rule follows, logwright follows it, and the release is recorded; else a line of looked-at.txt
    says what was seen.
    """
    newest = kafka_releases.newest(line)
    changed = differences(recorded(READ[line]), kafka_releases.digests(newest))
    compared = f"Kafka {newest} was compared with {READ[line]}: {len(changed)} differences"
    record_property("compared", compared)
    sys.stdout.write(f"{compared}\n")
    looked_at = kafka_releases.looked_at()
    assert [] == [str(one) for one in not_looked_at(newest, changed, looked_at)], newest
    of_line = {(name, value) for one, name, value in looked_at if line_of(one) == line}
    assert set() == of_line - {(one.name, one.after) for one in changed}, "not a difference"


@pytest.mark.oracle
@pytest.mark.nightly
@pytest.mark.parametrize("line", LINES)
def test_a_config_that_only_patch_releases_have(line: str) -> None:
    """A release that has it accepts and refuses the values that logwright does; one that has not
    refuses all of them.
    """
    newest = kafka_releases.newest(line)
    version = BY_NAME.get(line, VERSIONS[0])
    settings = [{PATCHED: value} for value in ("0", "1", "2147483639", "2147483640", "x")]
    words = (f"{PATCHED}={setting[PATCHED]}" for setting in settings)
    theirs = kafka_releases.verdicts(newest, "retention.ms=5", "remote.copy.lag.ms=5", *words)
    has_it = f"topic {PATCHED}" in kafka_releases.configs(newest)
    ours = [our_verdict(setting, version) is None for setting in settings]
    assert [False, True, True, False, False] == ours
    assert [True, line == "4.4", *(ours if has_it else [False] * len(ours))] == theirs
    assert has_it or line == "4.3", newest


@pytest.mark.oracle
@pytest.mark.nightly
def test_each_class_that_a_source_names_is_compared() -> None:
    """A docstring that names a class of Kafka as the source of a rule has it compared."""
    jars = {
        name.rpartition(".")[2]
        for version in oracle_runner.KAFKAS
        for name in kafka_releases.class_names(READ[version])
    }
    compared = {
        name.rpartition(".")[2]
        for version in oracle_runner.KAFKAS
        for name in recorded(READ[version])
        if " " not in name
    }
    missing = {name: path for name, path in named_classes().items() if name in jars - compared}
    left = {name for name in missing if not name.endswith("Exception")} - NOT_OF_KAFKA.keys()
    assert {} == {name: missing[name] for name in left}
    assert NOT_OF_KAFKA.keys() <= missing.keys()


def named_classes() -> dict[str, Path]:
    """The words of several capitals in comments and docstrings of logwright, each with a file."""
    words: dict[str, Path] = {}
    for module in modules():
        if not module.name.startswith("logwright"):
            continue
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                for word in re.findall(r"\b[A-Z][a-z0-9]+(?:[A-Z]\w*)+", token.string):
                    words.setdefault(word, module.path)
    return words
