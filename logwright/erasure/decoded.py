"""The readings of keys that need a schema: keys are decoded as the topic's table in the
policies has them, as ``dump --decode`` does.

JSON is read without a schema (`logwright.erasure.forms`): the fields of a table could be less than
those of the key.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from logwright.config.decoding import Decoding, JsonSpec, ScalarSpec
from logwright.config.spec import Spec
from logwright.erasure.forms import json_reading
from logwright.extras import require

if TYPE_CHECKING:
    import pyarrow as pa

    from logwright.config.policies import Policies
    from logwright.decode.model import Decoder

_PLAIN: Final = ("binary", "string")


class KeyReader:
    """Decodes keys of one topic, on any thread.

    Args:
        spec: how. base: the directory of relative paths.
    """

    def __init__(self, topic: str, spec: Spec, base: Path) -> None:
        self._topic, self._spec, self._base = topic, spec, base
        self._lock = Lock()
        self._decoder: Decoder | None = None

    def __call__(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the reading of each key, None if it cannot be decoded. Effects: reads schemas.

        Raises:
            PolicyError, SchemaUnavailable: as `make_decoder`.
            MissingExtra: the extra tables is not installed.
        """
        if not keys:
            return []
        require("tables", by="keys that are given decoded")
        batch = _batch(self._topic, keys)
        with self._lock:
            if self._decoder is None:
                from logwright.decode.make import make_decoder  # noqa: PLC0415 -- of an extra

                self._decoder = make_decoder(
                    Decoding(key=self._spec), base=self._base, sample=[batch], topic=self._topic
                )
            decoded = self._decoder.decode(batch)
        read: list[bytes | None] = [None] * len(keys)
        values = decoded.rows.column("key").to_pylist()
        for position, value in zip(decoded.positions.to_pylist(), values, strict=True):
            read[position] = json_reading(_plain(value))
        return read


def readers_of(policies: Policies | None, base: Path | None) -> Callable[[str], KeyReader | None]:
    """Return what returns the reader of a topic's keys; None if they need none.

    Args:
        base: the directory of the policies.
    """
    known: dict[str, KeyReader | None] = {}

    def reader_of(topic: str) -> KeyReader | None:
        if topic not in known:
            spec = None if policies is None else _spec(policies, topic)
            known[topic] = None if spec is None else KeyReader(topic, spec, base or Path())
        return known[topic]

    return reader_of


def _spec(policies: Policies, topic: str) -> Spec | None:
    """Return how the keys of a topic are decoded, None if their bytes say it."""
    tables = [entry.table for entry in policies.entries_for(topic)]
    spec = next((table.decoding.key for table in tables if table is not None), None)
    if spec is None or isinstance(spec, JsonSpec) or spec.use == "together":
        return None
    return None if isinstance(spec, ScalarSpec) and spec.format in _PLAIN else spec


def _batch(topic: str, keys: Sequence[bytes]) -> pa.RecordBatch:
    """Return keys as records, whose offsets are their numbers."""
    import pyarrow as pa  # noqa: PLC0415 -- of an extra

    count = len(keys)
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array([b""] * count, pa.binary()),
            "topic": pa.array([topic] * count, pa.string()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.nulls(count, pa.timestamp("us", "UTC")),
        }
    )


def _plain(value: Any) -> Any:  # noqa: ANN401 -- a decoded value has any type
    """Return a decoded value as JSON whose numbers are texts, without fields that have no value."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | str) else str(value)
