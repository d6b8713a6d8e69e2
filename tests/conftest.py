"""What all tests share: one seed that is always said, Hypothesis' profiles, a clean environment,
the share of the day (`tests.schedule`), what each test costs (`tests.costs`).
"""

from __future__ import annotations

import atexit
import gc
import os
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests import costs, oracle_runner, rights, schedule

if TYPE_CHECKING:
    from tests.spark_session import Observed

OWN_VARIABLES = ("DAGSTER_HOME", "LOGWRIGHT_")
"""A developer's own settings must not decide what a test sees."""

DEMANDED = pytest.StashKey[bool]()
NOT_RUN = pytest.StashKey[dict[str, list[str]]]()
"""Of each missing right, the tests that were not run for want of it."""

TOUCHED = pytest.StashKey[list[str]]()
"""What is said of the tests that the change touches."""

SEEDS = 65_536
"""A run that is given no seed draws one below this."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--seed N` replays a run of the random tests, `--count N` sizes the nightly ones, `--kafka V`
    chooses the Kafka of the tests that run with one, `--since REV` says what the change is.
    """
    parser.addoption(
        "--seed", type=int, help="of the random tests and of what runs by day; another one each run"
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
    parser.addoption(
        "--whole", action="store_true", help="all cases of the tests that rotate, by day, too"
    )
    parser.addoption(
        "--costs", type=Path, default=costs.LAST, help="the file for what each test costs"
    )
    parser.addoption(
        "--since",
        help="the revision before the change; else where the branch left origin's, or HEAD^",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set up what is the same for all tests. Effects: changes the environment; takes an interrupt
    that a shell's background ignores, and children with it.
    """
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(1, SEEDS)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(config.option.seed)
    config.stash[DEMANDED] = os.environ.get(rights.DEMAND) == "1"
    config.stash[NOT_RUN] = {}
    config.stash[TOUCHED] = []
    for name in [name for name in os.environ if name.startswith(OWN_VARIABLES)]:
        del os.environ[name]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    slow = (hypothesis.HealthCheck.too_slow,)  # so is a busy machine
    day = hypothesis.settings(
        deadline=None, database=None, suppress_health_check=slow, max_examples=40
    )
    hypothesis.settings.register_profile("day", day)
    hypothesis.settings.register_profile("night", day, max_examples=5_000)
    hypothesis.settings.load_profile("night" if _is_night(config) else "day")
    config.pluginmanager.register(costs.Meter(config.getoption("costs")))
    config.pluginmanager.register(Collector())


def _is_night(config: pytest.Config) -> bool:
    return schedule.is_night(config.getoption("markexpr"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the share of the day, before what waits for the night is left out."""
    if _is_night(config):
        for item in items:
            if item.get_closest_marker("rotates"):
                item.add_marker(pytest.mark.nightly)
    elif not config.getoption("whole"):
        changed = schedule.changed_files(config.getoption("since"))
        config.stash[TOUCHED] = schedule.rotate(items, config.getoption("seed"), changed)
    if hasattr(config, "workerinput"):
        items[:] = schedule.in_order(items, night=_is_night(config))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is there now stays: no collection of garbage has to look at it again, until the end,
    when extension modules complain of what they find. By day there are fewer collections; one test
    of the night can open more files than a process may have.
    """
    gc.collect()
    gc.freeze()
    if not _is_night(session.config):
        gc.set_threshold(20_000)
    atexit.register(gc.unfreeze)


class Collector:
    """Collects garbage whenever `more` descriptors were opened: an error that a test expects keeps,
    by its traceback, the files of the frames that it went through, and a process may have 1,024.
    """

    def __init__(self, more: int = 300) -> None:
        self.more = more
        self.left = _opened()

    def pytest_runtest_logfinish(self) -> None:
        """After each test."""
        if _opened() > self.left + self.more:
            gc.collect()
            self.left = _opened()


def _opened() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> schedule.ByFile:  # noqa: ANN401 -- a class of xdist
    """Workers take whole files, the longest first."""
    return schedule.ByFile(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what a worker knows to the process that started it."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["not_run"] = session.config.stash[NOT_RUN]
        output["touched"] = session.config.stash[TOUCHED]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 -- a class of xdist
    """Take what a worker knows."""
    output = getattr(node, "workeroutput", {})
    stash = node.config.stash
    for name, tests in output.get("not_run", {}).items():
        stash[NOT_RUN].setdefault(name, []).extend(tests)
    stash[TOUCHED] = output.get("touched", stash[TOUCHED])


def pytest_report_header(config: pytest.Config) -> str:
    """Say the seed, so that a failure can be replayed."""
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
    """Say the seed again, which tests the change touches, which were not run and what they lack."""
    terminalreporter.line(pytest_report_header(config))
    for sentence in config.stash[TOUCHED]:
        terminalreporter.line(sentence)
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
def sessions() -> Iterator[tuple[ExitStack, list[Observed]]]:
    """The Spark sessions that were started, of which the last may run; the stack stops them."""
    with ExitStack() as stack:
        yield stack, []


@pytest.fixture(scope="module")
def observed(
    sessions: tuple[ExitStack, list[Observed]], tmp_path_factory: pytest.TempPathFactory
) -> Observed:
    """The one Spark session that tests share, whatever their directory. Effects: starts it, at
    first and where another file has stopped it.
    """
    from tests.spark_session import observed_session  # noqa: PLC0415 -- pyspark: not for all tests

    stack, started = sessions
    if not started or started[-1].spark.sparkContext._jsc is None:
        events = tmp_path_factory.mktemp("spark_events")
        started.append(stack.enter_context(observed_session(events)))
    return started[-1]
