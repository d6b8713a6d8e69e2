"""The directory of the demo: an unpacked Kafka log directory, its policies, a Dagster instance.

<home>/kafka-logs/       written by Kafka, unpacked from kafka-logs.tar.xz; the topics' settings are
                         from settings.json, since there is no cluster metadata
<home>/landing/signups/  input files for the asset `ingested` and the sensor `landing`
<home>/policies/         policy files, made from settings.json
<home>/tables/           the table of the topic customers
<home>/dagster/          DAGSTER_HOME, SQLite; Spark's event log is in storage/spark_events
<home>/sweep.log         Dagster's output of the runs
<home>/sweep.json        results of the runs, for the tables
<home>/workspace.yaml    the code location
<home>/.logwright-demo   marks the directory as a demo's, and is locked while a demo runs
"""

from __future__ import annotations

import base64
import errno
import fcntl
import hashlib
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

from logwright.config.kept import keep_topics
from logwright.demo import landing
from logwright.demo.sensors import ARCHIVE_SCHEDULE, SCHEDULES
from logwright.errors import DiskFull, LogDirLocked, PreconditionError, invariant
from logwright.format.kept_topics import KeptTopic
from logwright.format.names import PARTITION_METADATA
from logwright.log.load import list_partitions

HERE: Final = Path(__file__).parent
ARCHIVE: Final = HERE / "kafka-logs.tar.xz"
SETTINGS: Final = HERE / "settings.json"
DEFAULTS: Final = {"file.delete.delay.ms": 3_600_000}
"""Keep the old segments for an hour, before the sensor `purge_due` requests their removal."""
IDS: Final = "version=1\nnode.id=1\ncluster.id=bG9nd3JpZ2h0LWRlbW8tMQ\n"
"""What `kafka-storage.sh format` writes, so that a broker would start on the logs."""
TABLE_TOPIC: Final = "customers"
CONTRACT: Final = {
    "values": {
        "format": "json",
        "columns": {
            "op": {"type": "string", "nullable": False, "value_set": ["c", "d", "r", "u"]},
            "after.id": {"type": "long", "min_value": 0},
        },
    }
}
"""What the check `value_contract` asks of this topic."""
TABLE: Final = {
    "format": "parquet",
    "preview": True,
    "key": "string",
    "value": {
        "format": "debezium",
        "of": {
            "format": "json",
            "schema": {
                "id": "long",
                "name": "string",
                "email": "string",
                "city": "string",
                "country": "string",
                "tier": "string",
                "points": "long",
                "newsletter": "boolean",
            },
        },
    },
}
"""The table of that topic: its values are change events, as Debezium writes them."""
MARKER: Final = ".logwright-demo"
DEFINITIONS: Final = "logwright.pipelines.definitions"

Progress = Callable[[int, int], None]
"""Called with (bytes done, total bytes)."""


class NotADemoHome(PreconditionError):
    """The directory has other files, which the demo would overwrite."""


class NoDemoArchive(PreconditionError):
    """The packed log is not here: the repository has it, a wheel does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoHome:
    """The paths of the demo.

    Attributes:
        bucket: URL of a log directory in a bucket, where the logs of the table's topic are
            written, too.
    """

    root: Path
    bucket: str | None = None

    @property
    def log_dir(self) -> Path:
        """The Kafka log directory."""
        return self.root / "kafka-logs"

    @property
    def policies(self) -> Path:
        """The directory of policy files."""
        return self.root / "policies"

    @property
    def tables(self) -> Path:
        """The parent of the tables, one per topic."""
        return self.root / "tables"

    @property
    def landing(self) -> Path:
        """The parent of the landing directories, one per topic."""
        return self.root / "landing"

    @property
    def instance(self) -> Path:
        """DAGSTER_HOME."""
        return self.root / "dagster"

    @property
    def workspace(self) -> Path:
        """Dagster's workspace file, with the code location."""
        return self.root / "workspace.yaml"

    @property
    def report(self) -> Path:
        """The results of the runs."""
        return self.root / "sweep.json"

    @property
    def schedules(self) -> tuple[str, ...]:
        """The schedules that run."""
        return SCHEDULES if self.bucket is None else (*SCHEDULES, ARCHIVE_SCHEDULE)

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment for child processes: this process's, with the platform's
        variables.

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
def opened(root: Path, bucket: str | None = None) -> Iterator[DemoHome]:
    """Create the demo's directory and lock it until the block ends. Effects: as said.

    Args:
        bucket: see `DemoHome`.

    Raises:
        NoDemoArchive: the demo's log is not part of the installed package.
        NotADemoHome: it exists and is not a demo's directory.
        LogDirLocked: a demo is running in it.
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
            "exists and is not the directory of a demo.",
            path=root,
            remedy="Give another one with --home.",
        )
    root.mkdir(parents=True, exist_ok=True)
    with (root / MARKER).open("a") as marker:
        try:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LogDirLocked(
                "A demo is running in this directory.",
                path=root,
                remedy="Stop it with Ctrl-C, or give another directory with --home.",
            ) from error
        yield DemoHome(root=root, bucket=bucket)


def prepare(home: DemoHome, progress: Progress) -> None:
    """Create the demo's initial files. Effects: replaces those of an earlier demo.

    Raises:
        DiskFull: not enough disk space.
    """
    settings = json.loads(SETTINGS.read_text())
    try:
        made = (home.log_dir, home.landing, home.policies, home.instance, home.tables)
        for directory in made:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        _unpack(home.root, progress)
        (home.log_dir / "meta.properties").write_text(IDS)
        _write_topic_ids(home.log_dir)
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
        raise DiskFull("Not enough disk space for the demo.", path=home.root) from error


def _unpack(root: Path, progress: Progress) -> None:
    with tarfile.open(ARCHIVE, "r:xz") as tar:
        members = tar.getmembers()
        total = sum(member.size for member in members)
        done = 0
        for member in members:
            _extract(tar, member, root)
            done += member.size
            progress(done, total)


def _write_topic_ids(log_dir: Path) -> None:
    """Give each topic an id, as a broker does; without one a broker renames its logs to -stray."""
    for partition in list_partitions(log_dir):
        digest = hashlib.sha256(partition.topic.encode()).digest()[:16]
        topic_id = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        path = log_dir / partition.directory_name / PARTITION_METADATA
        path.write_text(f"version: 0\ntopic_id: {topic_id}\n")


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    """Extract one member of the demo's archive. Python before 3.11.4, such as Debian 12's, has no
    extraction filters; there only regular files and directories below the root are accepted.
    """
    if hasattr(tarfile, "data_filter"):
        tar.extract(member, root, filter="data")
        return
    inside = root.resolve() in (root / member.name).resolve().parents
    invariant(inside and (member.isfile() or member.isdir()), f"a stray member: {member.name}")
    tar.extract(member, root)


def _write_policies(home: DemoHome, topics: Mapping[str, Mapping[str, str]]) -> None:
    every = {**topics, landing.TOPIC: landing.POLICY}
    table = {**TABLE, "path": str(home.tables / TABLE_TOPIC)}
    labels = {"owner": "crm", "tags": ["pii"]}
    archive = {} if home.bucket is None else {"archive": {"to": home.bucket}}
    more = {TABLE_TOPIC: {**labels, **archive, "table": table, "tests": [CONTRACT]}}
    entries = [
        {"name": topic, **configs, **more.get(topic, {})} for topic, configs in every.items()
    ]
    sources = [landing.source(home.landing / landing.TOPIC)]
    files = {
        "topics.yml": {"version": 1, "defaults": DEFAULTS, "topics": entries},
        "log_dirs.yml": {"version": 1, "log_dirs": [str(home.log_dir)]},
        "ingest.yml": {"version": 1, "ingest": {"sources": sources}},
    }
    for name, document in files.items():
        (home.policies / name).write_text(yaml.safe_dump(document, sort_keys=False))
