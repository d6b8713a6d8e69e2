"""What differs between releases of Kafka in the classes and configs that logwright's rules are of.

``python -m tests.kafka_releases record 4.3.2`` records a release in tests/kafka_classes/read, and
``python -m tests.kafka_releases show 4.3.0 4.3.2`` prints each member that differs, as it is or is
not in each. Both take the jars from Maven, as the oracle does.

A digest is of the disassembled code (tests/kafka_classes), so that a compilation of the same source
does not count.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.oracle_runner import JVM_OPTIONS, OracleUnavailable, classpath_of, java

PROJECT = Path(__file__).with_name("kafka_classes")
READ = PROJECT / "read"
"""A file for each release, with what it has."""

LOOKED_AT = READ / "looked-at.txt"
"""What a later patch release changes without a change of a rule: of each a line with the release,
the name, the value and what was seen, with tabs between.
"""

MAVEN_SECONDS = 600
DEPENDENCY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
ABSENT: Final = "absent"

CLASSES = re.compile(
    r"""
    (?:common\.metadata\.\w+\.json)|
    kafka\.(?:
        cluster\.Partition|
        coordinator\.transaction\.TransactionLog|
        server\.KafkaConfig|
        log\.\w+|
        raft\.\w+|
        server\.(?:AbstractFetcherThread|BrokerLifecycleManager|BrokerServer|DynamicBrokerConfig)|
        server\.(?:DynamicLogConfig|KafkaRaftServer|ReplicaFetcherThread|ReplicaManager)|
        server\.metadata\.BrokerMetadataPublisher
    )|
    org\.apache\.kafka\.(?:
        clients\.producer\.internals\.BuiltInPartitioner|
        common\.(?:DirectoryId|TopicPartition|Uuid)|
        common\.(?:compress|header\.internals|metadata|record|record\.internal)\.\w+|
        common\.config\.(?:ConfigDef|ConfigResource|TopicConfig)|
        common\.message\.(?:ConsumerProtocolAssignment|ConsumerProtocolSubscription)|
        common\.message\.(?:KRaftVersionRecord|LeaderChangeMessage|VotersRecord)|
        common\.message\.(?:SnapshotFooterRecord|SnapshotHeaderRecord)|
        common\.utils\.(?:ByteUtils|Checksums|Crc32C|Utils)|
        connect\.(?:data|json)\.\w+|
        controller\.(?:BrokerHeartbeatManager|ClusterControlManager|ConfigurationControlManager)|
        controller\.(?:FeatureControlManager|PartitionChangeBuilder|ReplicationControlManager)|
        coordinator\.(?:group|share|transaction)\.generated\.\w+|
        coordinator\.group\.(?:GroupCoordinatorConfig|GroupMetadataManager)|
        coordinator\.transaction\.Transaction(?:LogConfig|State|StateManagerConfig)|
        image\.\w+|
        metadata\.(?:\w+|properties\.\w+|storage\.\w+)|
        raft\.(?:\w*State\w*|KafkaRaftClient|ReplicatedLog|Voter\w*|generated\.\w+)|
        raft\.(?:FileQuorumStateStore|internals\.(?:KafkaRaftLog|KRaft\w*|RecordsIterator|Voter\w*))|
        server\.(?:BrokerLifecycleManager|config\.\w+|record\.\w+|storage\.log\.\w+)|
        server\.(?:common\.(?:serialization\.)?\w+|share\.fetch\.RecordState)|
        server\.log\.remote\.(?:metadata\.)?storage\.(?:\w+\.)?\w+|
        snapshot\.\w+|
        storage\.internals\.(?:checkpoint|epoch|log)\.\w+
    )
    """,
    re.VERBOSE,
)
"""Which classes, and definitions of metadata records: those that write or read what is in a log
directory, decide what becomes of it, or hold a config. Nested classes count as a part of theirs.
"""

ABOUT_LOGS = (
    "compression.",
    "controller.quorum.",
    "cordoned.",
    "file.",
    "internal.",
    "log.",
    "max.",
    "message.",
    "metadata.",
    "min.",
    "num.",
    "offsets.",
    "producer.",
    "remote.",
    "replica.",
    "transaction",
    "unclean.",
)
"""How the names of the broker's configs begin that count; of a topic's configs all do."""

A_PLACE = "broker log.dir"
"""Its default is a path, which no rule is of."""

Digests = Mapping[str, str]
"""Of each class its digest, and of each config ("topic retention.ms") type, default, validator."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What two releases do not have alike; `ABSENT` where one has no such thing."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        if ABSENT in (self.before, self.after):
            return f"{self.name} {'came' if self.before == ABSENT else 'went'}"
        is_config = " " in self.name
        return f"{self.name} was {self.before}, is {self.after}" if is_config else self.name


def differences(before: Digests, after: Digests) -> list[Difference]:
    """What differs, in the order of the names."""
    return [
        Difference(name, old, new)
        for name in sorted(before.keys() | after.keys())
        if (old := before.get(name, ABSENT)) != (new := after.get(name, ABSENT))
    ]


def not_looked_at(
    release: str, changed: list[Difference], looked_at: set[tuple[str, str, str]]
) -> list[Difference]:
    """Those of which nobody has recorded that this release, or an earlier one of its line with the
    same value, was looked at.
    """
    seen = {(line_of(one), name, value) for one, name, value in looked_at}
    return [one for one in changed if (line_of(release), one.name, one.after) not in seen]


def line_of(release: str) -> str:
    """The first two numbers of a release."""
    return ".".join(release.split(".")[:2])


def read_releases() -> dict[str, str]:
    """Of each line the release that is recorded."""
    names = [path.name.removeprefix("kafka-") for path in READ.glob("kafka-*.txt")]
    return {line_of(name): name.removesuffix(".txt") for name in sorted(names)}


def recorded(release: str) -> Digests:
    """What is recorded of a release."""
    lines = (READ / f"kafka-{release}.txt").read_text().splitlines()
    return dict(line.split("\t") for line in lines)


def looked_at() -> set[tuple[str, str, str]]:
    """Release, name and value of each difference that somebody looked at."""
    lines = [line for line in LOOKED_AT.read_text().splitlines() if not line.startswith("#")]
    return {(release, name, value) for release, name, value, _ in (x.split("\t") for x in lines)}


@cache
def newest(line: str) -> str:
    """The newest release of a line that Maven finds. Effects: Maven's own cache."""
    major, minor = line.split(".")
    printed = _maven(
        *("-U", "-f", PROJECT / "newest.xml", f"{DEPENDENCY}:list"),
        f"-Dkafka.range=[{line}.0,{major}.{int(minor) + 1}.0-alpha)",
    )
    (release,) = set(re.findall(r"org\.apache\.kafka:kafka-storage:jar:([\d.]+):", printed))
    return str(release)


@cache
def jars(release: str) -> tuple[Path, ...]:
    """The jars of a release and of what it needs. Effects: Maven's own cache."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "classpath"
        _maven(
            *("-f", PROJECT / "pom.xml", f"-Dkafka.version={release}"),
            *(f"{DEPENDENCY}:build-classpath", f"-Dmdep.outputFile={path}"),
        )
        return tuple(Path(jar) for jar in path.read_text().split(os.pathsep))


def members(release: str) -> dict[str, dict[str, str]]:
    """Class → member → digest of a release, of `CLASSES` only."""
    by_class: dict[str, dict[str, str]] = defaultdict(dict)
    for line in _java("classes.Digests", *map(str, _of_kafka(release))):
        name, member, digest = line.split("\t")
        if CLASSES.fullmatch(top := name.partition("$")[0]):
            by_class[top][f"{name} {member}"] = digest
    return by_class


def class_names(release: str) -> set[str]:
    """All classes of a release that are in no other class, by the names in its jars."""
    names = (name for jar in _of_kafka(release) for name in zipfile.ZipFile(jar).namelist())
    return {name[:-6].replace("/", ".") for name in names if re.fullmatch(r"[\w/]+\.class", name)}


def configs(release: str) -> Digests:
    """Type, default and validator of each config that counts."""
    lines = (line.split("\t") for line in _java("classes.Configs", with_kafka=release))
    return {
        name: value
        for name, value in lines
        if name.startswith("topic ") or name.removeprefix("broker ").startswith(ABOUT_LOGS)
        if name != A_PLACE
    }


def verdicts(release: str, *settings: str) -> list[bool]:
    """Whether a topic may have each NAME=VALUE: what `LogConfig.validate` of a release says."""
    return [line == "accepted" for line in _java("classes.Configs", *settings, with_kafka=release)]


def digests(release: str) -> Digests:
    """What a release has, by its jars."""
    of_classes = {
        name: hashlib.sha256("\n".join(map(" ".join, sorted(each.items()))).encode()).hexdigest()
        for name, each in members(release).items()
    }
    return {name: digest[:12] for name, digest in of_classes.items()} | dict(configs(release))


def record(release: str) -> None:
    """Write what a release has. Effects: replaces the record of its line."""
    for path in READ.glob(f"kafka-{line_of(release)}.*.txt"):
        path.unlink()
    lines = [f"{name}\t{value}\n" for name, value in sorted(digests(release).items())]
    (READ / f"kafka-{release}.txt").write_text("".join(lines))


def shown(before: str, after: str) -> Iterator[str]:
    """A line for each member and config that differs."""
    flat = [
        {name: digest for each in members(release).values() for name, digest in each.items()}
        | dict(configs(release))
        for release in (before, after)
    ]
    for difference in differences(*flat):
        yield f"{difference.name}\t{difference.before}\t{difference.after}"


def _of_kafka(release: str) -> list[Path]:
    return [jar for jar in jars(release) if jar.stem.endswith(f"-{release}")]


def _java(main_class: str, *words: str, with_kafka: str | None = None) -> list[str]:
    path = [classpath_of(PROJECT), *map(str, jars(with_kafka) if with_kafka else ())]
    command = [java(), *JVM_OPTIONS, "-cp", os.pathsep.join(path), main_class, *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=MAVEN_SECONDS, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{main_class}: {done.stderr[-4000:]}")
    return done.stdout.splitlines()


def _maven(*words: str | Path) -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise OracleUnavailable("Maven is missing: install it (Debian: apt-get install maven).")
    done = subprocess.run(
        [maven, "-B", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=MAVEN_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise OracleUnavailable(f"Maven failed:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", release]:
            record(release)
        case ["show", before, after]:
            sys.stdout.writelines(f"{line}\n" for line in shown(before, after))
        case _:
            sys.exit(__doc__)
