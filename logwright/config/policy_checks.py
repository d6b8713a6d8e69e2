"""Check the sections of policies against models and Kafka's rules, with the position of each key
and value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from logwright.config.broker import SYNONYMS, BrokerConfig
from logwright.config.marked import Entries, Items, Mark, Marked, Problem, Text, find, plain, shown
from logwright.config.names import former_name
from logwright.config.topic import (
    SYNONYM_OF,
    TOPIC_NAMES,
    TopicConfig,
    overlay,
    validated,
)
from logwright.config.values import CONTRADICTION, plain_message

_MOST_ITEMS: Final = 100
"""Maximum length of a list whose wrong item is searched for."""

_Model = TypeVar("_Model", bound=BaseModel)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configs of a mapping that are valid by themselves.

    Attributes:
        node: the mapping.
        pairs: config name → value, in Kafka's form.
    """

    node: Entries
    pairs: Mapping[str, str]

    def value_of(self, name: str) -> Marked | None:
        """Return the node of a config's value, also if a broker's name of it is set."""
        for alias in (name, *(synonym for synonym, _ in SYNONYMS.get(name, ()))):
            if alias in self.pairs:
                return self.node.entries[alias][1]
        return None


class Checker:
    """Checks the nodes of policies and collects the problems.

    Attributes:
        problems: what was found, in the order of the checks.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._known: set[Problem] = set()

    def report(
        self,
        node: Marked,
        rule: str,
        *,
        at: Mark | None = None,
        setting: str | None = None,
        value: bool = True,
    ) -> None:
        """Add a problem of a node.

        Args:
            node: the wrong value, or the mapping that misses something.
            rule: the rule that is broken.
            at: the position, if it is not the node's.
            setting: the path, if it is not the node's.
            value: show the value.
        """
        self._add(
            Problem(
                mark=at or node.mark,
                setting=node.setting if setting is None else setting,
                rule=rule,
                got=shown(node) if value else None,
            )
        )

    def mapping(self, node: Marked) -> Entries:
        """Return a node that must be a mapping; an empty one if it is not."""
        if isinstance(node, Entries):
            return node
        self.report(node, "must be a mapping")
        return Entries(node.mark, {}, node.setting, whole=False)

    def items(self, node: Marked) -> tuple[Marked, ...]:
        """Return the items of a node that must be a list; none if it is not."""
        if isinstance(node, Items):
            return node.items
        self.report(node, "must be a list")
        return ()

    def scalar(self, kind: TypeAdapter[_Value], node: Marked) -> _Value | None:
        """Return the value of a node, None if it is not of this type."""
        try:
            return kind.validate_python(plain(node))
        except ValidationError as error:
            self.report(node, plain_message(error.errors(include_url=False)[0]))
            return None

    def model(self, model: type[_Model], node: Entries) -> _Model | None:
        """Return the value of a mapping, None if it is not of this form."""
        empty = [key for key, (_, value) in node.entries.items() if plain(value) is None]
        for key in empty:
            self.report(node.entries[key][1], "needs a value")
        given = node.without(*empty)
        whole = node.whole and not empty
        try:
            value = model.model_validate(plain(given))
        except ValidationError as error:
            for details in error.errors(include_url=False):
                self._invalid(details, given, model, whole=whole)
            return None
        return value if whole else None

    def configs(self, node: Entries, valid: frozenset[str], labels: frozenset[str]) -> Settings:
        """Return the valid configs of a mapping.

        Args:
            node: the mapping, without its labels.
            valid: the names that are allowed.
            labels: keys that are allowed in the mapping and are not configs.
        """
        pairs: dict[str, str] = {}
        for name, (_, value) in node.entries.items():
            if name not in valid:
                self._unknown_config(node, name, valid | labels)
            elif (text := self._as_text(value, listed=name in LIST_NAMES)) is not None:
                pairs[name] = text
        for name in list(pairs):
            if (error := _invalid_config(name, pairs[name])) is not None:
                value = _culprit(name, node.entries[name][1])
                self.report(value, error, setting=node.path_of(name))
                del pairs[name]
        return Settings(node=node, pairs=pairs)

    def unknown(
        self, node: Entries, key: str, valid: frozenset[str], rule: str = "unknown key"
    ) -> None:
        """Report a key of a mapping that is not valid, with the nearest one that is."""
        mark, value = node.entries[key]
        problem = Problem(mark=mark, setting=node.path_of(key), rule=rule, key=key, valid=valid)
        self._add(replace(problem, got=shown(value) if node.setting else None))

    def _unknown_config(self, node: Entries, name: str, valid: frozenset[str]) -> None:
        mark, value = node.entries[name]
        if name in SYNONYM_OF:
            rule = f"is a broker config, the topic config is {SYNONYM_OF[name]!r}"
        elif (former := former_name(name)) is not None:
            rule = f"unknown config, {former}"
        else:
            self.unknown(node, name, valid)
            return
        self.report(value, rule, at=mark)

    def rules(self, *layers: Settings) -> None:
        """Check the rules between configs, on the effective values.

        Args:
            layers: the least specific first. A rule that two of them break is reported in the more
                specific one.
        """
        pairs: dict[str, str] = {}
        for layer in layers:
            pairs = overlay(pairs, layer.pairs)
        while True:
            try:
                validated(pairs)
            except ValidationError as error:
                broken = [_names(found) for found in error.errors(include_url=False)]
                for details, names in zip(error.errors(include_url=False), broken, strict=True):
                    self._broken(plain_message(details), names, layers)
                left = pairs.keys() - _all_names(name for names in broken for name in names)
                if len(left) == len(pairs):
                    return
                pairs = {name: pairs[name] for name in left}
            else:
                return

    def _broken(self, rule: str, names: Iterable[str], layers: tuple[Settings, ...]) -> None:
        """Report a broken rule at the most specific value, and where the other values are."""
        ranked: list[tuple[int, Marked]] = []
        for name in names:
            for rank, layer in enumerate(reversed(layers)):
                if (value := layer.value_of(name)) is not None:
                    ranked.append((rank, value))
                    break
        if not ranked:
            self.report(layers[-1].node, rule, value=False)
            return
        (_, blamed), *others = sorted(ranked, key=lambda one: one[0])
        more = "".join(f"; {value.setting} is set at {value.mark}" for _, value in others)
        self.report(blamed, f"{rule}{more}", value=False)

    def _invalid(
        self, details: ErrorDetails, node: Entries, model: type[BaseModel], *, whole: bool
    ) -> None:
        """Report one of pydantic's errors."""
        location, rule = details["loc"], plain_message(details)
        culprit = find(node, location)
        if details["type"] == CONTRADICTION and not location:
            if whole:
                known = [node.entries[name][1] for name in _names(details) if name in node.entries]
                self.report(known[0] if known else node, rule, value=False)
        elif details["type"] == "extra_forbidden":
            parent, key = find(node, location[:-1]), str(location[-1])
            if isinstance(parent, Entries):
                self.unknown(parent, key, _fields_at(model, location[:-1]))
        elif details["type"] == "missing":
            if isinstance(culprit, Entries) and culprit.whole and whole:
                setting = culprit.path_of(str(location[-1]))
                self.report(culprit, rule, setting=setting, value=False)
        else:
            self.report(culprit, rule)

    def _as_text(self, node: Marked, *, listed: bool) -> str | None:
        """Return a config's value in Kafka's form; a list has commas."""
        if isinstance(node, Text):
            if node.text is None:
                self.report(node, "needs a value")
            return node.text
        if isinstance(node, Entries) or not listed:
            self.report(node, "must be a single value")
            return None
        texts = []
        for item in node.items:
            if isinstance(item, Text) and item.text is not None:
                texts.append(item.text)
            else:
                self.report(item, "must be a single value")
        return ",".join(texts) if len(texts) == len(node.items) else None

    def _add(self, problem: Problem) -> None:
        """Add a problem, once."""
        if problem not in self._known:
            self._known.add(problem)
            self.problems.append(problem)


def _names(details: ErrorDetails) -> tuple[str, ...]:
    """Return the configs that an error is about."""
    if details["type"] == CONTRADICTION:
        return tuple(details["ctx"]["names"])
    return tuple(str(step) for step in details["loc"][:1])


def _all_names(names: Iterable[str]) -> set[str]:
    """Return these names and the brokers' names of the same configs."""
    return {
        alias for name in names for alias in (name, *(other for other, _ in SYNONYMS.get(name, ())))
    }


def _invalid_config(name: str, value: str) -> str | None:
    """Return the rule that a config breaks by itself, None if there is none."""
    model = TopicConfig if name in TOPIC_NAMES else BrokerConfig
    try:
        model.model_validate({name: value})
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        return None if details["type"] == CONTRADICTION else plain_message(details)
    return None


def _culprit(name: str, node: Marked) -> Marked:
    """Return the first item of a list that makes it wrong, else the node itself."""
    if isinstance(node, Items) and len(node.items) <= _MOST_ITEMS:
        texts = [str(plain(item)) for item in node.items]
        for end, item in enumerate(node.items, 1):
            if _invalid_config(name, ",".join(texts[:end])) is not None:
                return item
    return node


def _fields_at(model: type[BaseModel], location: Iterable[int | str]) -> frozenset[str]:
    """Return the keys of the model at a pydantic location."""
    for step in location:
        if isinstance(step, str) and step in model.model_fields:
            model = next(_models(model.model_fields[step].annotation), model)
    return frozenset(model.model_fields)


def _models(kind: object) -> Iterator[type[BaseModel]]:
    """Generate the models that a type contains."""
    if isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)


def _is_list(kind: object) -> bool:
    return get_origin(kind) is tuple or any(map(_is_list, get_args(kind)))


LIST_NAMES: Final = frozenset(
    name.replace("_", ".")
    for model in (TopicConfig, BrokerConfig)
    for name, field in model.model_fields.items()
    if _is_list(field.annotation)
)
"""Configs whose value may be a list."""
