"""Random topic configs: we accept what Kafka's controller accepts, and refuse what it refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from logwright.config.kafka_version import BY_NAME, unknown_configs
from logwright.config.topic import TOPIC_NAMES
from tests.differential.oracle_server import OracleServer
from tests.differential.random_configs import (
    DIFFERENCES,
    Difference,
    Pairs,
    coverage,
    differences,
    our_verdict,
    random_configs,
)
from tests.oracle_runner import kafka

CONFIGS = 2_000
"""In every commit's run; at night `--count`."""

LEAST = 3
"""How often each config must have been in an accepted set, and in a refused one."""


def kafka_verdicts(
    server: OracleServer, configs: Sequence[Pairs], *, tiered: bool
) -> list[str | None]:
    """What Kafka says against each, in a cluster with or without tiered storage."""
    answer = server.ask({"request": "configs", "configs": configs, "remoteStorage": tiered})
    refused: list[str | None] = answer["refused"]
    return refused


def disagreements(
    server: OracleServer, configs: Sequence[Pairs], *, tiered: bool
) -> tuple[list[str], Counter[str]]:
    """The configs on which we and Kafka differ, without the values that we differ on on purpose:
    nothing else may be hidden by those.
    """
    seen: Counter[str] = Counter()
    questions = []
    for pairs in configs:
        known = {one.name for one in differences(pairs, tiered=tiered)}
        known |= BY_NAME[kafka()].patch_configs  # this Kafka is the first of its patch releases
        seen["differences"] += bool(known)
        questions.append({name: value for name, value in pairs.items() if name not in known})
    disagreeing = []
    for pairs, theirs in zip(
        questions, kafka_verdicts(server, questions, tiered=tiered), strict=True
    ):
        ours = our_verdict(pairs, BY_NAME[kafka()])
        seen += coverage(pairs, theirs)
        if (ours is None) != (theirs is None):
            disagreeing.append(
                f"{pairs}: Kafka: {theirs or 'accepted'}; logwright: {ours or 'accepted'}"
            )
    return disagreeing, seen


def judge(server: OracleServer, seed: int, count: int, *, tiered: bool) -> None:
    disagreeing, seen = disagreements(server, list(random_configs(seed, count)), tiered=tiered)
    assert [] == disagreeing[:20], f"{len(disagreeing)} of {count}"
    newer, patched = unknown_configs(BY_NAME[kafka()]), BY_NAME[kafka()].patch_configs
    rare = [
        f"{verdict} {name}"
        for verdict in ("accepted", "refused")
        for name in TOPIC_NAMES - patched
        if seen[f"{verdict} {name}"] < LEAST and (verdict, name in newer) != ("accepted", True)
    ]
    assert [] == rare, seen
    assert seen["differences"] >= LEAST, seen


@pytest.mark.rotates(4)
@pytest.mark.oracle
@pytest.mark.parametrize("tiered", [False, True], ids=["local", "tiered"])
def test_random_topic_configs(server: OracleServer, seed: int, tiered: bool) -> None:
    """Types, bounds, lists, unknown names, and the rules between configs."""
    judge(server, seed, CONFIGS, tiered=tiered)


@pytest.mark.oracle
@pytest.mark.nightly
def test_many_more_random_topic_configs(
    server: OracleServer, seed: int, pytestconfig: pytest.Config
) -> None:
    """The same by night, `--count` sets."""
    judge(server, seed, max(pytestconfig.getoption("count"), CONFIGS), tiered=False)


@pytest.mark.oracle
def test_the_names_are_kafkas(server: OracleServer) -> None:
    """No topic config of Kafka is unknown to us, and no other is known."""
    version = BY_NAME[kafka()]
    known = TOPIC_NAMES - unknown_configs(version) - version.patch_configs
    assert sorted(known) == server.ask({"request": "configs", "names": True})["names"]


@pytest.mark.oracle
@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda one: one.name)
def test_we_still_differ(server: OracleServer, difference: Difference) -> None:
    """Each difference on purpose is one, and for us and Kafka as it says."""
    pairs = {difference.name: difference.example}
    assert [difference] == differences(pairs, tiered=True)
    (theirs,) = kafka_verdicts(server, [pairs], tiered=True)
    assert (difference.refused, not difference.refused) == (
        our_verdict(pairs) is not None,
        theirs is not None,
    )
