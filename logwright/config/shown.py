"""The text form of the values of topic configs."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from logwright.config.topic import TopicConfig


def as_kafka_shows(name: str, raw: str) -> str:
    """Return a value in the form of Kafka's tools; an invalid one as written."""
    try:
        return _written(_adapter(name).validate_python(raw))
    except ValidationError:
        return raw


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    info = TopicConfig.model_fields[name.replace(".", "_")]
    kind: Any = Annotated[info.annotation, Field(), *info.metadata]
    return TypeAdapter(kind)


@cache
def default_of(name: str) -> str:
    """Return Kafka's default of a topic config."""
    return _written(TopicConfig.model_fields[name.replace(".", "_")].default)


def _written(value: object) -> str:
    """Format a value like ConfigDef.convertToString."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)
