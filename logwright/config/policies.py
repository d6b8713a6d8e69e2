"""Policies: the operator's settings for topics, as YAML files in one directory.

1. Every ``*.yml`` and ``*.yaml`` file of the directory is read; each has ``version: 1`` and some of
   the sections ``defaults``, ``topics``, ``log_dirs``, ``high_watermark``, ``checks``, ``sweep``,
   ``expectations``, ``ingest``, ``erasure``, ``kafka_version``. ``topics`` may be spread over
   files; any other section is in one file only.
2. ``defaults`` has topic configs and broker server properties; an entry of ``topics`` has topic
   configs and a ``name`` or ``pattern`` (a regular expression for the whole topic name).
3. For each config of a topic the most specific source wins: the entry with its name; entries whose
   pattern matches, the last one first; Kafka's settings of an internal topic; ``defaults``; Kafka's
   defaults.
4. All problems are reported together, each with ``file:line:column``, the value, and the nearest
   valid key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, TypeAdapter

import logwright
from logwright.config.archive import (
    ARCHIVE,
    NO_SECRETS,
    TopicArchive,
    has_secrets,
    is_bucket_entry,
    read_archive,
)
from logwright.config.erasure import ErasureSettings
from logwright.config.marked import Entries, Mark, Marked, Problem, Text, plain, read_marked
from logwright.config.patterns import matches
from logwright.config.policy_checks import Checker, Settings
from logwright.config.policy_models import (
    Checks,
    DiskLimits,
    Expectations,
    IngestSources,
    KafkaName,
    Severity,
    SweepLimits,
    TopicLabels,
)
from logwright.config.table import TABLE, TopicTable, read_table, report_paths
from logwright.config.topic import ALL_NAMES, TOPIC_NAMES
from logwright.config.topic_tests import TopicTest, read_tests
from logwright.config.without_effect import reason_of_no_effect, warn_of_no_effect
from logwright.errors import PolicyError
from logwright.log.committed import HighWatermark

_TESTS: Final = "tests"
_MORE: Final = frozenset({_TESTS, TABLE, ARCHIVE})
_LABELS: Final = frozenset(TopicLabels.model_fields)
_HIGH_WATERMARK: Final[TypeAdapter[HighWatermark]] = TypeAdapter(HighWatermark)
_CHECKS: Final[TypeAdapter[Checks]] = TypeAdapter(Checks)
_KAFKA: Final[TypeAdapter[KafkaName]] = TypeAdapter(KafkaName)
_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "sweep": SweepLimits,
    "expectations": Expectations,
    "ingest": IngestSources,
    "disk": DiskLimits,
    "erasure": ErasureSettings,
}
_SCALARS: Final = frozenset({"version", "high_watermark", "checks", "kafka_version"})
_SECTIONS: Final = frozenset({"defaults", "topics", "log_dirs", *_SCALARS, *_MODELS})
EXAMPLES: Final = Path(logwright.__file__).parent / "dbt_like_configs"
"""The policies that come with the package."""

_MOST_PROBLEMS: Final = 1_000
"""Maximum number of problems in the message of an error."""

_Model = TypeVar("_Model", bound=BaseModel)
_Value = TypeVar("_Value")
_Default = TypeVar("_Default")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicy:
    """One entry of ``topics``: which topics it is for, its labels, and unparsed configs.

    Attributes:
        marks: config name → its position in a file.
        tests: what is asked of the compacted output.
        table: the table with the topic's latest state, None: there is none.
        archive: where its logs are archived, None: nowhere.
    """

    labels: TopicLabels
    settings: Mapping[str, str]
    marks: Mapping[str, Mark] = field(default_factory=dict)
    tests: tuple[TopicTest, ...] = ()
    table: TopicTable | None = None
    archive: TopicArchive | None = None

    def applies_to(self, topic: str) -> bool:
        """Return whether the entry names this topic or its pattern matches the whole name."""
        if self.labels.name is not None:
            return self.labels.name == topic
        return matches(self.labels.pattern or "", topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """All policies of one directory.

    Attributes:
        default_marks: config name of `defaults` → its position in a file.
        high_watermark: what counts as committed on the platform.
        own_high_watermark: the same if the policies say it, otherwise None: the command line has
            another default.
    """

    defaults: Mapping[str, str] = field(default_factory=dict)
    default_marks: Mapping[str, Mark] = field(default_factory=dict)
    topics: tuple[TopicPolicy, ...] = ()
    log_dirs: tuple[Path | str, ...] = ()
    high_watermark: HighWatermark = "checkpoint"
    own_high_watermark: HighWatermark | None = None
    sweep: SweepLimits = field(default_factory=SweepLimits)
    expectations: Expectations = field(default_factory=Expectations)
    checks: Checks = "quick"
    ingest: IngestSources = field(default_factory=IngestSources)
    disk: DiskLimits = field(default_factory=DiskLimits)
    erasure: ErasureSettings = field(default_factory=ErasureSettings)
    kafka_version: KafkaName | None = None

    def entries_for(self, topic: str) -> tuple[TopicPolicy, ...]:
        """Return the entries for a topic, least specific first: patterns in file order, then the
        name.
        """
        matching = [policy for policy in self.topics if policy.applies_to(topic)]
        return tuple(sorted(matching, key=lambda policy: policy.labels.name is not None))

    @property
    def archives(self) -> dict[str, TopicArchive]:
        """Topic → its archive, of the topics that have one."""
        return {
            entry.labels.name: entry.archive
            for entry in self.topics
            if entry.archive is not None and entry.labels.name is not None
        }

    def labels_for(self, topic: str) -> TopicLabels:
        """Return owner and severity of the most specific entry that has them, and the tags of all
        entries.
        """
        owner: str | None = None
        severity: Severity | None = None
        tags: dict[str, None] = {}
        for policy in self.entries_for(topic):
            owner = policy.labels.owner or owner
            severity = policy.labels.severity or severity
            tags.update(dict.fromkeys(policy.labels.tags))
        return TopicLabels(name=topic, owner=owner, tags=tuple(tags), severity=severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPolicies:
    """What a check of a directory found.

    Attributes:
        policies: the policies, None if there are problems.
        files: the files that were read.
        entries: number of entries of ``topics``.
        problems: sorted by file, line and column.
        warnings: settings without effect, in the same order.
    """

    policies: Policies | None
    files: tuple[Path, ...]
    entries: int
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def load_policies(directory: Path) -> Policies:
    """Load the policies of a directory. Effects: reads its ``*.yml`` and ``*.yaml`` files, without
    hidden ones and subdirectories; may log warnings.

    Raises:
        PolicyError: they are invalid; the message has one line per problem.
    """
    checked = check_policies(directory)
    if checked.policies is None:
        lines = [str(problem) for problem in checked.problems[:_MOST_PROBLEMS]]
        if len(checked.problems) > _MOST_PROBLEMS:
            lines.append(f"… and {len(checked.problems) - _MOST_PROBLEMS} more problems")
        raise PolicyError("\n".join(lines))
    for name, mark in checked.policies.default_marks.items():
        _warn_once(name, f"{mark}: ")
    return checked.policies


def check_policies(directory: Path) -> CheckedPolicies:
    """Check all policies of a directory. Effects: reads the same files as `load_policies`.

    Raises:
        PolicyError: it is not a directory, cannot be read, or contains no policies.
    """
    try:
        files = sorted(
            path
            for path in directory.iterdir()
            if path.suffix in {".yml", ".yaml"} and not path.name.startswith(".")
        )
    except (NotADirectoryError, FileNotFoundError):
        raise PolicyError("is not a directory of policies.", path=directory) from None
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}.", path=directory) from error
    if not files:
        raise PolicyError("contains no policies (*.yml).", path=directory)
    reader = _PolicyReader()
    for path in files:
        reader.add(path)
    return reader.result(tuple(files))


class _PolicyReader:
    """Collects the sections of all files and their problems."""

    def __init__(self) -> None:
        self._checker = Checker()
        self._sections: dict[str, tuple[Mark, Marked]] = {}
        self._repeated: list[tuple[str, Marked]] = []
        self._entries: list[Marked] = []
        self._warnings: list[Problem] = []

    def add(self, path: Path) -> None:
        """Read a file and take its sections. Effects: reads it."""
        if not path.is_file():
            rule = "is not a file, or a link to nothing"
            self._checker.problems.append(Problem(mark=Mark(path, 1, 1), setting="", rule=rule))
            return
        document, problems = read_marked(path)
        self._checker.problems += problems
        if not self._is_version_1(document):
            return
        for section, (mark, node) in document.entries.items():
            if section not in _SECTIONS:
                self._checker.unknown(document, section, _SECTIONS, "unknown section")
            elif section == "version":
                continue
            elif section == "topics":
                self._entries += self._checker.items(node)
            elif section in self._sections:
                rule = f"is already defined at {self._sections[section][0]}"
                self._checker.report(node, rule, at=mark, value=False)
                self._repeated.append((section, node))
            else:
                self._sections[section] = (mark, node)

    def _is_version_1(self, document: Entries) -> bool:
        """Return whether the file's sections are those of version 1."""
        if "version" in document.entries:
            (_, node) = document.entries["version"]
            if plain(node) == "1":
                return True
            self._checker.report(node, "must be 1, the only version")
            return False
        if document.whole:
            self._checker.report(
                document, "'version: 1' is required", setting="version", value=False
            )
        return True

    def result(self, files: tuple[Path, ...]) -> CheckedPolicies:
        """Check all sections."""
        defaults = self._defaults()
        topics, log_dirs = self._topics(defaults), self._log_dirs()
        here = [log_dir for log_dir in log_dirs if isinstance(log_dir, Path)]
        report_paths(self._checker, self._entries, here)
        high_watermark = self._scalar("high_watermark", _HIGH_WATERMARK, None)
        policies = Policies(
            defaults=defaults.pairs,
            default_marks=_marks(defaults),
            topics=topics,
            log_dirs=log_dirs,
            high_watermark=high_watermark or "checkpoint",
            own_high_watermark=high_watermark,
            sweep=self._section("sweep", SweepLimits),
            expectations=self._section("expectations", Expectations),
            checks=self._scalar("checks", _CHECKS, "quick"),
            ingest=self._section("ingest", IngestSources),
            disk=self._section("disk", DiskLimits),
            erasure=self._section("erasure", ErasureSettings),
            kafka_version=self._scalar("kafka_version", _KAFKA, None),
        )
        for section, node in self._repeated:
            self._check_repeated(section, node)
        problems = self._checker.problems
        return CheckedPolicies(
            policies=None if problems else policies,
            files=files,
            entries=len(self._entries),
            problems=tuple(sorted(problems, key=lambda problem: problem.mark)),
            warnings=tuple(sorted(self._warnings, key=lambda warning: warning.mark)),
        )

    def _defaults(self) -> Settings:
        """Check the section ``defaults``."""
        node = Entries(Mark(Path(), 1, 1), {})
        if "defaults" in self._sections:
            node = self._checker.mapping(self._sections["defaults"][1])
        defaults = self._checker.configs(node, ALL_NAMES, frozenset())
        self._checker.rules(defaults)
        self._warn(defaults)
        return defaults

    def _topics(self, defaults: Settings) -> tuple[TopicPolicy, ...]:
        """Check the entries of ``topics``."""
        policies: list[tuple[TopicPolicy, Settings]] = []
        seen: dict[tuple[str | None, str | None], Mark] = {}
        for entry in self._entries:
            if not isinstance(entry, Entries):
                self._checker.report(entry, "must be a mapping")
                continue
            labels = self._checker.model(TopicLabels, entry.only(_LABELS))
            (_, tests) = entry.entries.get(_TESTS, (None, None))
            topic_tests = read_tests(self._checker, tests)
            table = read_table(self._checker, entry)
            archive = read_archive(self._checker, entry)
            own = self._checker.configs(
                entry.without(*_LABELS, *_MORE), TOPIC_NAMES, _LABELS | _MORE
            )
            self._checker.rules(defaults, own)
            self._warn(own)
            if labels is None:
                continue
            key = "name" if labels.name is not None else "pattern"
            value = entry.entries[key][1]
            whom = (labels.name, labels.pattern)
            if whom in seen:
                self._checker.report(value, f"already has an entry at {seen[whom]}")
            seen.setdefault(whom, value.mark)
            policy = TopicPolicy(
                labels=labels,
                settings=own.pairs,
                marks=_marks(own),
                tests=topic_tests,
                table=table,
                archive=archive,
            )
            policies.append((policy, own))
        for policy, own in policies:
            self._check_together(policy, own, defaults, policies)
        return tuple(policy for policy, _ in policies)

    def _check_together(
        self,
        policy: TopicPolicy,
        own: Settings,
        defaults: Settings,
        entries: Iterable[tuple[TopicPolicy, Settings]],
    ) -> None:
        """Check a topic's entry together with those whose pattern matches its name."""
        name = policy.labels.name
        if name is not None:
            others = [
                settings
                for other, settings in entries
                if other.labels.pattern is not None and other.applies_to(name)
            ]
            if others:
                self._checker.rules(defaults, *others, own)

    def _log_dirs(self) -> tuple[Path | str, ...]:
        """Check the section ``log_dirs``: paths, and as text URLs of buckets, with a name or
        without.
        """
        if "log_dirs" not in self._sections:
            return ()
        paths: dict[Path | str, Mark] = {}
        for item in self._checker.items(self._sections["log_dirs"][1]):
            if not isinstance(item, Text) or not item.text:
                self._checker.report(item, "must be the path of a directory, or a URL of a bucket")
                continue
            of_bucket = is_bucket_entry(item.text)
            where = item.text.rstrip("/") if of_bucket else Path(item.text)
            if of_bucket and has_secrets(item.text):
                self._checker.report(item, NO_SECRETS, value=False)
            elif where in paths:
                self._checker.report(item, f"is already listed at {paths[where]}")
            else:
                paths[where] = item.mark
        return tuple(paths)

    def _scalar(self, name: str, kind: TypeAdapter[_Value], default: _Default) -> _Value | _Default:
        if name not in self._sections:
            return default
        value = self._checker.scalar(kind, self._sections[name][1])
        return default if value is None else value

    def _section(self, name: str, model: type[_Model]) -> _Model:
        if name not in self._sections:
            return model()
        node = self._checker.mapping(self._sections[name][1])
        return self._checker.model(model, node) or model()

    def _check_repeated(self, section: str, node: Marked) -> None:
        """Check a section that another file has too."""
        if section == "defaults":
            settings = self._checker.configs(self._checker.mapping(node), ALL_NAMES, frozenset())
            self._checker.rules(settings)
        elif section in _MODELS:
            self._checker.model(_MODELS[section], self._checker.mapping(node))

    def _warn(self, settings: Settings) -> None:
        """Collect the settings without effect."""
        for name, mark in _marks(settings).items():
            why = reason_of_no_effect(name)
            if why is not None:
                path = settings.node.path_of(name)
                self._warnings.append(Problem(mark=mark, setting=path, rule=f"no effect: {why}"))


@cache
def _warn_once(name: str, place: str) -> None:
    """Warn only once: every tick of a sensor loads the policies. Effects: may log a warning."""
    warn_of_no_effect([name], place)


def _marks(settings: Settings) -> dict[str, Mark]:
    """Return the positions of the keys."""
    return {name: settings.node.entries[name][0] for name in settings.pairs}
