"""The directory of the demo: an unpacked Kafka log directory, its policies, a Dagster instance.

<home>/kafka-logs/       as Kafka left it, unpacked from kafka-logs.tar.xz; with what settings.json
                         says of its topics, since the cluster's metadata is not there
<home>/landing/signups/  files that wait for the asset `ingested` and the sensor `landing`
<home>/policies/         what settings.json says of its topics, as policy files
<home>/dagster/          DAGSTER_HOME, SQLite; Spark's event log is in storage/spark_events
<home>/sweep.log         what Dagster said of the runs
<home>/sweep.json        what came of them, for the tables
<home>/workspace.yaml    the code location
<home>/.logwright-demo   marks the directory as ours, and is locked while a demo runs in it
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import yaml

from logwright.config.kept import KeptTopic, keep_topics
from logwright.demo import landing
from logwright.errors import DiskFull, LogDirLocked, PreconditionError, invariant

HERE: Final = Path(__file__).parent
ARCHIVE: Final = HERE / "kafka-logs.tar.xz"
SETTINGS: Final = HERE / "settings.json"
DEFAULTS: Final = {"file.delete.delay.ms": 3_600_000}
"""The old segments can be looked at for an hour, before the sensor `purge_due` has them removed."""
MARKER: Final = ".logwright-demo"
DEFINITIONS: Final = "logwright.pipelines.definitions"

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""


class NotADemoHome(PreconditionError):
    """The directory holds something else, which making the demo would overwrite."""


class NoDemoArchive(PreconditionError):
    """The packed log is not here: the repository has it, a wheel does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoHome:
    """Where everything of the demo is."""

    root: Path

    @property
    def log_dir(self) -> Path:
        """The Kafka log directory."""
        return self.root / "kafka-logs"

    @property
    def policies(self) -> Path:
        """The directory of policy files."""
        return self.root / "policies"

    @property
    def landing(self) -> Path:
        """The landing directories, one for each topic."""
        return self.root / "landing"

    @property
    def instance(self) -> Path:
        """DAGSTER_HOME."""
        return self.root / "dagster"

    @property
    def workspace(self) -> Path:
        """Says to Dagster which code location to load."""
        return self.root / "workspace.yaml"

    @property
    def report(self) -> Path:
        """What came of the runs."""
        return self.root / "sweep.json"

    @property
    def environment(self) -> Mapping[str, str]:
        """This process's environment with what the platform reads; for child processes.

        Effects: reads the environment.
        """
        ours = {
            "DAGSTER_HOME": str(self.instance),
            "LOGWRIGHT_LOG_DIRS": str(self.log_dir),
            "LOGWRIGHT_POLICIES": str(self.policies),
            "PYSPARK_PYTHON": sys.executable,
        }
        return MappingProxyType({**os.environ, **ours})


@contextmanager
def opened(root: Path) -> Iterator[DemoHome]:
    """The demo's directory, ours alone until the block ends. Effects: makes and locks it.

    Raises:
        NoDemoArchive: there is nothing to unpack in it.
        NotADemoHome: it is there, and not of a demo.
        LogDirLocked: a demo runs in it.
    """
    if not ARCHIVE.exists():
        raise NoDemoArchive(
            f"the demo's log {ARCHIVE.name} is not part of an installed package.",
            path=ARCHIVE,
            remedy="Run 'make demo' in a checkout of logwright.",
        )
    root = root.absolute()
    if root.exists() and not (root / MARKER).exists() and (root.is_file() or any(root.iterdir())):
        raise NotADemoHome(
            "is there already and is no directory of a demo.",
            path=root,
            remedy="Name another one with --home.",
        )
    root.mkdir(parents=True, exist_ok=True)
    with (root / MARKER).open("a") as marker:
        try:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LogDirLocked(
                "A demo runs in this directory.",
                path=root,
                remedy="End it with Ctrl-C, or name another directory with --home.",
            ) from error
        yield DemoHome(root=root)


def prepare(home: DemoHome, progress: Progress) -> None:
    """Puts everything there as it was the first time. Effects: replaces what an earlier demo left.

    Raises:
        DiskFull: there is no room.
    """
    settings = json.loads(SETTINGS.read_text())
    try:
        for directory in (home.log_dir, home.landing, home.policies, home.instance):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        _unpack(home.root, progress)
        topics = settings["topics"]
        keep_topics(home.log_dir, {name: KeptTopic(configs=topics[name]) for name in topics})
        landing.write_files(home.landing / landing.TOPIC)
        _write_policies(home, topics)
        instance = HERE.parent / "pipelines" / "dagster.yaml"
        shutil.copyfile(instance, home.instance / "dagster.yaml")
        location = {"module_name": DEFINITIONS, "location_name": "logwright"}
        home.workspace.write_text(yaml.safe_dump({"load_from": [{"python_module": location}]}))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull("There is no room for the demo.", path=home.root) from error


def _unpack(root: Path, progress: Progress) -> None:
    with tarfile.open(ARCHIVE, "r:xz") as tar:
        members = tar.getmembers()
        total = sum(member.size for member in members)
        done = 0
        for member in members:
            _extract(tar, member, root)
            done += member.size
            progress(done, total)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    """One member of our own archive. Python before 3.11.4, Debian 12's among them, has no filters;
    there nothing but plain files and directories below the root is taken.
    """
    if hasattr(tarfile, "data_filter"):
        tar.extract(member, root, filter="data")
        return
    inside = root.resolve() in (root / member.name).resolve().parents
    invariant(inside and (member.isfile() or member.isdir()), f"a stray member: {member.name}")
    tar.extract(member, root)


def _write_policies(home: DemoHome, topics: Mapping[str, Mapping[str, str]]) -> None:
    every = {**topics, landing.TOPIC: landing.POLICY}
    entries = [{"name": topic, **configs} for topic, configs in every.items()]
    sources = [landing.source(home.landing / landing.TOPIC)]
    files = {
        "topics.yml": {"version": 1, "defaults": DEFAULTS, "topics": entries},
        "log_dirs.yml": {"version": 1, "log_dirs": [str(home.log_dir)]},
        "ingest.yml": {"version": 1, "ingest": {"sources": sources}},
    }
    for name, document in files.items():
        (home.policies / name).write_text(yaml.safe_dump(document, sort_keys=False))
