"""The rights of a broker's user: Kafka's start as that user, and what `doctor` says of it as root.

Here `doctor` may say that it does not know only where a start that recovers nothing succeeds, and a
later write does not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logwright.rescue.rights import user_named
from logwright.rescue.start import judge_start
from tests.log_builder import LogBuilder
from tests.metadata_builder import uuid_text
from tests.oracle_runner import JVM_OPTIONS, java, oracle_classpath
from tests.property.accidents import META, NOW_MS
from tests.rights import NOBODY

pytestmark = [pytest.mark.oracle, pytest.mark.needs_rights("another_user")]

LOG = "t-0"


def of_root(*names: str) -> Callable[[Path], None]:
    """These files belong to root, and nobody else may read them."""

    def do(root: Path) -> None:
        for name in names:
            path = root / name
            path.touch()
            os.chown(path, 0, 0)
            path.chmod(0o600)

    return do


def mode(name: str, bits: int) -> Callable[[Path], None]:
    """A file or directory with another mode."""
    return lambda root: (root / name).chmod(bits)


STOPS: dict[str, Callable[[Path], None]] = {
    "a segment": of_root(f"{LOG}/{0:020d}.log"),
    "a segment that is read-only": mode(f"{LOG}/{0:020d}.log", 0o444),
    "an index": of_root(f"{LOG}/{0:020d}.index"),
    "a time index": of_root(f"{LOG}/{2:020d}.timeindex"),
    "a snapshot": of_root(f"{LOG}/{4:020d}.snapshot"),
    "leader epochs": of_root(f"{LOG}/leader-epoch-checkpoint"),
    "a log's directory": mode(LOG, 0o300),
    "the log directory": mode(".", 0o500),
    "a checkpoint": of_root("replication-offset-checkpoint"),
    "the lock": of_root(".lock"),
    "meta.properties": of_root("meta.properties"),
    "a strange file": of_root(f"{LOG}/notes.txt"),
}
LATER: dict[str, Callable[[Path], None]] = {
    "a log's directory that is read-only": mode(LOG, 0o500),
    "a checkpoint's .tmp": of_root("replication-offset-checkpoint.tmp"),
}
STARTS: dict[str, Callable[[Path], None]] = {
    "nothing": lambda _: None,
    "a work directory of another user": lambda root: (root / LOG / ".logwright").mkdir(mode=0o700),
}
CASES = {**STOPS, **LATER, **STARTS}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory that every user may pass: those of pytest's are of one user."""
    path = Path("/var/tmp") / f"logwright-rights-{os.getpid()}"  # noqa: S108 -- made below, as root
    path.mkdir(mode=0o755)
    log = LogBuilder(path / "whole")
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.segment(2).batch(2, [("a", "3")]).batch(3, [("b", "4")])
    log.write(producers=True, high_watermark=4)
    (path / "whole/meta.properties").write_text(META)
    (log.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(5)}")
    (path / "java").mkdir()
    for entry in map(Path, oracle_classpath().split(os.pathsep)):
        for jar in entry.parent.glob("*.jar"):
            shutil.copyfile(jar, path / "java" / jar.name)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def kafka(place: Path) -> dict[str, str]:
    """What Kafka's start says of each case, as the user; empty if it starts."""
    requests = []
    for number, do in enumerate(CASES.values()):
        made(place, str(number), do)
        requests.append(
            {
                "request": "boot",
                "logDirs": [str(place / str(number))],
                "identity": True,
                "now": NOW_MS,
            }
        )
    lines = [json.dumps(line) for line in (*requests, {"request": "quit"})]
    ended = subprocess.run(
        [java(), *JVM_OPTIONS, "-cp", f"{place}/java/*", "oracle.Main", "serve"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
    )
    answers = map(json.loads, ended.stdout.splitlines())
    fails = (str(answer.get("bootFailed", "")) for answer in answers)
    return dict(zip(CASES, fails, strict=False))


def made(place: Path, name: str, do: Callable[[Path], None]) -> Path:
    """The log directory of the user, changed."""
    root = shutil.copytree(place / "whole", place / name)
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    do(root)
    return root


@pytest.mark.parametrize("name", CASES)
def test_a_right(name: str, place: Path, kafka: dict[str, str]) -> None:
    """What is said before, as root, is what Kafka does."""
    root = made(place, f"judged-{list(CASES).index(name)}", CASES[name])
    verdict = judge_start([root], now_ms=NOW_MS, user=user_named(str(NOBODY)))
    assert bool(kafka[name]) == (name in STOPS), kafka[name]
    assert verdict.starts is (False if name in STOPS else None if name in LATER else True)
    if name not in STARTS:
        (finding,) = verdict.findings
        assert finding.remedy is not None
        assert "chown" in finding.remedy
    assert judge_start([root], now_ms=NOW_MS, user=user_named("0")).starts
