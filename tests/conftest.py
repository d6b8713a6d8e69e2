"""What all tests share: one seed that is always said, Hypothesis' profiles, a clean environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests import oracle_runner, rights

if TYPE_CHECKING:
    from tests.spark_session import Observed

OWN_VARIABLES = ("DAGSTER_HOME", "LOGWRIGHT_")
"""A developer's own settings must not decide what a test sees."""

DEMANDED = pytest.StashKey[bool]()
NOT_RUN = pytest.StashKey[dict[str, list[str]]]()
"""Of each missing right, the tests that were not run for want of it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--seed N` replays a run of the random tests, `--count N` sizes the nightly ones, `--kafka V`
    chooses the Kafka of the tests that run with one.
    """
    parser.addoption(
        "--seed", type=int, default=1, help="of the random tests; `make nightly` varies it"
    )
    parser.addoption(
        "--count", type=int, default=20_000, help="logs that the nightly comparisons write"
    )
    parser.addoption(
        "--kafka",
        choices=oracle_runner.KAFKAS,
        default=oracle_runner.OLDEST,
        help="whose code runs in tests that do not run with each Kafka",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set up what is the same for all tests. Effects: changes the environment."""
    config.stash[DEMANDED] = os.environ.get(rights.DEMAND) == "1"
    config.stash[NOT_RUN] = {}
    for name in [name for name in os.environ if name.startswith(OWN_VARIABLES)]:
        del os.environ[name]
    hypothesis.settings.register_profile("commit", deadline=None, derandomize=True, database=None)
    hypothesis.settings.register_profile("nightly", deadline=None, max_examples=5_000)
    nightly = config.getoption("markexpr") == "nightly"
    hypothesis.settings.load_profile("nightly" if nightly else "commit")


def pytest_report_header(config: pytest.Config) -> str:
    """Say the seed, so that a failure of the night can be replayed by day."""
    return f"seed: {config.getoption('seed')} (replay with --seed)"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture, see that a test has the rights that it needs."""
    names = rights.missing(item)
    for name in names:
        item.config.stash[NOT_RUN].setdefault(name, []).append(item.nodeid)
    if names:
        rights.refuse(item, names, demanded=item.config.stash[DEMANDED])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name the tests that were not run, and what they lack."""
    not_run = config.stash[NOT_RUN]
    if not_run:
        terminalreporter.section("tests not run for want of a right")
    for name, tests in not_run.items():
        terminalreporter.line(f"{len(tests)} need {name}: {rights.RIGHTS[name][1]}")
        for test in tests:
            terminalreporter.line(f"  {test}")


@pytest.fixture(scope="session", autouse=True)
def chosen_kafka(request: pytest.FixtureRequest) -> Iterator[None]:
    """The Kafka of `--kafka`."""
    with oracle_runner.using(request.config.getoption("kafka")):
        yield


@pytest.fixture(scope="module", params=oracle_runner.KAFKAS)
def kafka_version(request: pytest.FixtureRequest, chosen_kafka: None) -> Iterator[str]:
    """Each Kafka in turn: all that runs Kafka's code in the test runs this one's."""
    with oracle_runner.using(request.param):
        yield request.param


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of the random tests."""
    value: int = request.config.getoption("seed")
    return value


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory for all runs of the demo: the second finds what the first left."""
    return tmp_path_factory.mktemp("demo") / "home"


@pytest.fixture(scope="session")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """The one Spark session that tests share, whatever their directory."""
    from tests.spark_session import observed_session  # noqa: PLC0415 -- pyspark: not for all tests

    with observed_session(tmp_path_factory.mktemp("spark_events")) as session:
        yield session
