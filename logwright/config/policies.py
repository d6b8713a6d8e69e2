"""Policies: the operator's settings for topics, as YAML files in one directory.

1. Every ``*.yml`` and ``*.yaml`` file of the directory is read; each has ``version: 1`` and some of
   the sections ``defaults``, ``topics``, ``log_dirs``, ``high_watermark``, ``checks``, ``sweep``,
   ``expectations``, ``ingest``. ``topics`` may be spread over files; any other section is in one
   file only.
2. ``defaults`` has topic configs and broker server properties; an entry of ``topics`` has topic
   configs and a ``name`` or ``pattern`` (a regular expression for the whole topic name).
3. For each config of a topic the most specific source wins: the entry with its name; entries whose
   pattern matches, the last one first; Kafka's settings of an internal topic; ``defaults``; Kafka's
   defaults.
4. All problems are reported together, each with ``file:line:column``, the value, and the nearest
   valid key.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from logwright.config.broker import BrokerConfig
from logwright.config.marked import Entries, Items, Mark, Marked, Text, find, plain, read_marked
from logwright.config.policy_models import (
    Checks,
    DiskLimits,
    Expectations,
    HighWatermark,
    IngestSources,
    Severity,
    SweepLimits,
    TopicLabels,
)
from logwright.config.topic import (
    ALL_NAMES,
    BROKER_NAMES,
    SYNONYM_OF,
    TOPIC_NAMES,
    TopicConfig,
    effective,
    overlay,
    unknown_name,
)
from logwright.config.without_effect import warn_of_no_effect
from logwright.errors import PolicyError

_SECTIONS: Final = (
    "version",
    "defaults",
    "topics",
    "log_dirs",
    "high_watermark",
    "sweep",
    "expectations",
    "checks",
    "ingest",
    "disk",
)
_SHOWN_LENGTH: Final = 100
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicy:
    """One entry of ``topics``: which topics it is for, its labels, and unparsed configs.

    Attributes:
        marks: config name → its position in a file.
    """

    labels: TopicLabels
    settings: Mapping[str, str]
    marks: Mapping[str, Mark] = field(default_factory=dict)

    def applies_to(self, topic: str) -> bool:
        """Return whether the entry names this topic or its pattern matches the whole name."""
        if self.labels.name is not None:
            return self.labels.name == topic
        return re.fullmatch(self.labels.pattern or "", topic) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """All policies of one directory.

    Attributes:
        default_marks: config name of `defaults` → its position in a file.
    """

    defaults: Mapping[str, str] = field(default_factory=dict)
    default_marks: Mapping[str, Mark] = field(default_factory=dict)
    topics: tuple[TopicPolicy, ...] = ()
    log_dirs: tuple[Path, ...] = ()
    high_watermark: HighWatermark = "checkpoint"
    sweep: SweepLimits = field(default_factory=SweepLimits)
    expectations: Expectations = field(default_factory=Expectations)
    checks: Checks = "quick"
    ingest: IngestSources = field(default_factory=IngestSources)
    disk: DiskLimits = field(default_factory=DiskLimits)

    def entries_for(self, topic: str) -> tuple[TopicPolicy, ...]:
        """Return the entries for a topic, least specific first: patterns in file order, then the
        name.
        """
        matching = [policy for policy in self.topics if policy.applies_to(topic)]
        return tuple(sorted(matching, key=lambda policy: policy.labels.name is not None))

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


def load_policies(directory: Path) -> Policies:
    """Load the policies of a directory. Effects: reads its ``*.yml`` and ``*.yaml`` files, without
    subdirectories.

    Raises:
        PolicyError: they are invalid; the message has one line per problem.
    """
    if not directory.is_dir():
        raise PolicyError("is not a directory of policies.", path=directory)
    files = sorted(
        path for path in directory.iterdir() if path.suffix in {".yml", ".yaml"} and path.is_file()
    )
    if not files:
        raise PolicyError("contains no policies (*.yml).", path=directory)
    reader = _PolicyReader()
    for path in files:
        reader.add(read_marked(path))
    return reader.result()


class _PolicyReader:
    """Collects the sections of all files and their problems."""

    def __init__(self) -> None:
        self._sections: dict[str, tuple[Mark, Marked]] = {}
        self._entries: list[Marked] = []
        self._problems: list[str] = []

    def add(self, document: Entries) -> None:
        if "version" not in document.entries:
            self._problems.append(f"{document.mark}: 'version: 1' is missing")
        for section, (mark, node) in document.entries.items():
            if section not in _SECTIONS:
                self._problems.append(
                    f"{mark}: unknown section {section!r}{_nearest(section, _SECTIONS)}"
                )
            elif section == "version":
                if plain(node) != "1":
                    self._problems.append(
                        f"{node.mark}: version {_shown(node)} is not supported, only 1 is"
                    )
            elif section == "topics":
                self._entries += self._list_of(node)
            elif section in self._sections:
                self._problems.append(
                    f"{mark}: {section!r} is already defined at {self._sections[section][0]}"
                )
            else:
                self._sections[section] = (mark, node)

    def result(self) -> Policies:
        defaults = self._defaults()
        topics = self._topics(defaults)
        policies = Policies(
            defaults=defaults,
            default_marks=self._default_marks(defaults),
            topics=topics,
            log_dirs=self._log_dirs(),
            high_watermark=self._high_watermark(),
            sweep=self._section("sweep", SweepLimits),
            expectations=self._section("expectations", Expectations),
            checks=self._checks(),
            ingest=self._section("ingest", IngestSources),
            disk=self._section("disk", DiskLimits),
        )
        if self._problems:
            raise PolicyError("\n".join(self._problems))
        return policies

    def _defaults(self) -> dict[str, str]:
        if "defaults" not in self._sections:
            return {}
        node = self._mapping(self._sections["defaults"][1])
        pairs = self._pairs(node, ALL_NAMES)
        before = len(self._problems)
        self._check(TopicConfig, node.only(TOPIC_NAMES & pairs.keys()))
        self._check(BrokerConfig, node.only(BROKER_NAMES - TOPIC_NAMES & pairs.keys()))
        if len(self._problems) == before:
            self._effective(node.mark, pairs)
        for name in pairs:
            _warn_once(name, f"{node.entries[name][0]}: ")
        return pairs

    def _default_marks(self, defaults: Iterable[str]) -> dict[str, Mark]:
        if "defaults" not in self._sections:
            return {}
        return _marks(self._sections["defaults"][1], defaults)

    def _topics(self, defaults: dict[str, str]) -> tuple[TopicPolicy, ...]:
        policies = []
        seen: dict[str, Mark] = {}
        for entry in self._entries:
            node = self._mapping(entry)
            if not node.entries:
                continue
            labels = self._check(TopicLabels, node.only(frozenset(TopicLabels.model_fields)))
            own = node.without(*TopicLabels.model_fields)
            pairs = self._pairs(own, TOPIC_NAMES | TopicLabels.model_fields.keys())
            before = len(self._problems)
            self._check(TopicConfig, own.only(frozenset(pairs)))
            if labels is None:
                continue
            whom = f"name {labels.name}" if labels.name is not None else f"pattern {labels.pattern}"
            if whom in seen:
                self._problems.append(f"{node.mark}: {whom!r} already has an entry at {seen[whom]}")
            seen.setdefault(whom, node.mark)
            if len(self._problems) == before:
                self._effective(node.mark, overlay(defaults, pairs))
            policies.append(TopicPolicy(labels=labels, settings=pairs, marks=_marks(own, pairs)))
        return tuple(policies)

    def _pairs(self, node: Entries, valid: frozenset[str]) -> dict[str, str]:
        """Return the unparsed pairs of a mapping; a list becomes Kafka's comma-separated form."""
        pairs: dict[str, str] = {}
        for name, (mark, value) in node.entries.items():
            if name not in valid:
                hint = SYNONYM_OF.get(name)
                self._problems.append(
                    f"{mark}: {name!r} is a broker config; the topic config is {hint!r}"
                    if hint is not None
                    else f"{mark}: {unknown_name(name, valid)} (got {_shown(value)})"
                )
                continue
            text = _as_text(value)
            if text is None:
                self._problems.append(f"{value.mark}: {name} needs a value (got {_shown(value)})")
                continue
            pairs[name] = text
        return pairs

    def _log_dirs(self) -> tuple[Path, ...]:
        if "log_dirs" not in self._sections:
            return ()
        paths: dict[Path, Mark] = {}
        for item in self._list_of(self._sections["log_dirs"][1]):
            if not isinstance(item, Text) or not item.text:
                self._problems.append(
                    f"{item.mark}: a log directory must be a path (got {_shown(item)})"
                )
            elif Path(item.text) in paths:
                self._problems.append(
                    f"{item.mark}: {item.text!r} is already listed at {paths[Path(item.text)]}"
                )
            else:
                paths[Path(item.text)] = item.mark
        return tuple(paths)

    def _high_watermark(self) -> HighWatermark:
        if "high_watermark" not in self._sections:
            return "checkpoint"
        node = self._sections["high_watermark"][1]
        match plain(node):
            case "end":
                return "end"
            case "checkpoint":
                return "checkpoint"
            case _:
                self._problems.append(
                    f"{node.mark}: high_watermark must be end or checkpoint (got {_shown(node)})"
                )
                return "checkpoint"

    def _checks(self) -> Checks:
        if "checks" not in self._sections:
            return "quick"
        node = self._sections["checks"][1]
        match plain(node):
            case "quick":
                return "quick"
            case "thorough":
                return "thorough"
            case _:
                self._problems.append(
                    f"{node.mark}: checks must be quick or thorough (got {_shown(node)})"
                )
                return "quick"

    def _section(self, name: str, model: type[_Model]) -> _Model:
        if name not in self._sections:
            return model()
        return self._check(model, self._mapping(self._sections[name][1])) or model()

    def _check(self, model: type[_Model], node: Entries) -> _Model | None:
        try:
            return model.model_validate(plain(node))
        except ValidationError as error:
            self._problems += _findings(error, node, model.model_fields)
            return None

    def _effective(self, mark: Mark, pairs: Mapping[str, str]) -> None:
        try:
            effective(pairs)
        except PolicyError as error:
            self._problems.append(f"{mark}: {error.problem}")

    def _list_of(self, node: Marked) -> list[Marked]:
        if isinstance(node, Items):
            return list(node.items)
        self._problems.append(f"{node.mark}: expected a list (got {_shown(node)})")
        return []

    def _mapping(self, node: Marked) -> Entries:
        if isinstance(node, Entries):
            return node
        self._problems.append(f"{node.mark}: expected a mapping (got {_shown(node)})")
        return Entries(node.mark, {})


@cache
def _warn_once(name: str, place: str) -> None:
    """Warn only once: every tick of a sensor loads the policies. Effects: may log a warning."""
    warn_of_no_effect([name], place)


def _marks(node: Marked, names: Iterable[str]) -> dict[str, Mark]:
    """Return the positions of these keys of a mapping."""
    entries = node.entries if isinstance(node, Entries) else {}
    return {name: entries[name][0] for name in names if name in entries}


def _findings(error: ValidationError, node: Entries, valid: Iterable[str]) -> list[str]:
    """Return pydantic's errors with position, value and, for a key, the nearest valid one."""
    sentences = []
    for found in error.errors(include_url=False):
        location = found["loc"]
        name = str(location[0]) if location else ""
        if found["type"] == "extra_forbidden":
            mark = node.entries[name][0] if name in node.entries else node.mark
            got = _shown(find(node, location))
            sentences.append(f"{mark}: unknown key {name!r}{_nearest(name, valid)} (got {got})")
            continue
        message = found["msg"].removeprefix("Value error, ").removeprefix("Input ")
        culprit = find(node, location)
        if not location or name not in node.entries:
            sentences.append(f"{culprit.mark}: {name + ': ' if name else ''}{message}")
        else:
            sentences.append(f"{culprit.mark}: {name}: {message} (got {_shown(culprit)})")
    return sentences


def _nearest(name: str, valid: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(valid), n=1, cutoff=0.0)
    return f", did you mean {near[0]!r}?" if near else ""


def _as_text(node: Marked) -> str | None:
    """Return a config's value in Kafka's form; None if it is neither a scalar nor a list of
    scalars.
    """
    if isinstance(node, Text):
        return node.text
    if isinstance(node, Items):
        texts = [
            item.text for item in node.items if isinstance(item, Text) and item.text is not None
        ]
        return ",".join(texts) if len(texts) == len(node.items) else None
    return None


def _shown(node: Marked) -> str:
    text = repr(plain(node))
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}…"
