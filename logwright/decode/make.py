"""Make the decoder of a topic from its specs.

The module that a spec names has ``make(spec, making)``: of a format for key and value together it
returns a `Decoder`, of any other one a `Made`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from logwright.config.decoding import DebeziumSpec, Decoding
from logwright.config.spec import Spec, resolve
from logwright.decode.ids_in_headers import with_ids
from logwright.decode.json_fields import UnusableSchema
from logwright.decode.model import Decoder, PartDecoder
from logwright.decode.rows import RowsDecoder
from logwright.decode.schema_sources import read_schema_file
from logwright.errors import PolicyError

_SAMPLE_BYTES: Final = 64 << 20


def make_decoder(
    decoding: Decoding,
    *,
    base: Path,
    sample: Iterable[pa.RecordBatch] = (),
    topic: str | None = None,
) -> Decoder:
    """Return the decoder of a topic. Effects: reads schema files, may start protoc, may ask a
    registry; takes batches from the sample only if something is inferred.

    Args:
        decoding: the specs.
        base: the directory of the policies, for relative paths.
        sample: batches of the topic, for JSON without a schema and registries without a schema id.
        topic: for `InternalSpec`; None: that of the sample.

    Raises:
        PolicyError: a schema is missing, malformed or cannot be columns; nothing can be inferred.
        SchemaUnavailable: a file cannot be read, or a registry does not answer.
    """
    first = _Sample(sample, topic)
    is_event = isinstance(decoding.value, DebeziumSpec)
    making = {
        part: Making(base=base, sample=first, part=part, is_event=is_event)
        for part in ("key", "value")
    }
    if decoding.value.use == "together":
        whole: Decoder = _make_of(decoding.value)(decoding.value, making["value"])
        return whole
    key, value = making["key"].make(decoding.key), making["value"].make(decoding.value)
    done = Decoding(key=key.spec, value=value.spec, headers=decoding.headers)
    return RowsDecoder(key=key.decoder, value=value.decoder, decoding=done)


class _Sample:
    """The first batches of a topic, read once, when they are asked for."""

    def __init__(self, batches: Iterable[pa.RecordBatch], topic: str | None) -> None:
        self._topic = topic
        self._batches = iter(batches)
        self._taken: list[pa.RecordBatch] = []

    def columns(self, part: str, *, has_ids: bool) -> Iterator[pa.Array]:
        """Yield the keys or values; if they have ids of schemas, those of the headers, too."""
        for batch in self._all():
            yield with_ids(batch, part) if has_ids else batch.column(part).cast(pa.binary())

    def topic(self) -> str | None:
        """Return the topic, that of the first record if it is not known. None: there is none."""
        if self._topic is not None:
            return self._topic
        for batch in self._all():
            if batch.num_rows:
                return str(batch.column("topic")[0].as_py())
        return None

    def _all(self) -> Iterator[pa.RecordBatch]:
        yield from self._taken
        size = sum(batch.nbytes for batch in self._taken)
        for batch in self._batches:
            self._taken.append(batch)
            yield batch
            size += batch.nbytes
            if size > _SAMPLE_BYTES:
                return


class Made(NamedTuple):
    """A decoder, and the spec that makes it again."""

    decoder: PartDecoder
    spec: Spec


class Making:
    """What the decoder of keys or values is made from.

    Attributes:
        part: ``key`` or ``value``, for messages.
        is_event: the topic's values are change events.
    """

    def __init__(
        self,
        *,
        base: Path,
        sample: _Sample,
        part: str,
        is_event: bool,
        change: Callable[[pa.Array], pa.Array] | None = None,
    ) -> None:
        self._base = base
        self._sample = sample
        self._change = change
        self.part = part
        self.is_event = is_event

    def make(self, spec: Spec) -> Made:
        """Return the decoder of a spec. Effects, errors: as `make_decoder`."""
        if spec.use == "together":
            raise PolicyError(f"The format {spec.format} is for key and value together.")
        made: Made = _make_of(spec)(spec, self)
        return made

    def inside(self, change: Callable[[pa.Array], pa.Array]) -> Making:
        """Return what a decoder is made from whose values are in others.

        Args:
            change: returns them, given a column of those that they are in.
        """
        return Making(
            base=self._base,
            sample=self._sample,
            part=self.part,
            is_event=self.is_event,
            change=change,
        )

    def columns(self, *, has_ids: bool = False) -> Iterator[pa.Array]:
        """Yield the first keys or values; if they have ids of schemas, those of the headers, too.
        Effects: reads them.
        """
        columns = self._sample.columns(self.part, has_ids=has_ids)
        return columns if self._change is None else map(self._change, columns)

    def topic(self) -> str | None:
        """Return the name of the topic, if it is known. Effects: may read the first records."""
        return self._sample.topic()

    def path(self, path: str) -> Path:
        """Return where a path of the spec leads to. Effects: reads links.

        Raises:
            PolicyError: out of the directory of the policies.
        """
        try:
            return resolve(self._base, path)
        except ValueError as error:
            raise PolicyError(f"{path} {error}.") from None

    def of_file(self, path: str, decoder: Callable[[Path, bytes], PartDecoder]) -> PartDecoder:
        """Return the decoder of a schema file, given its place and content. Effects: reads it.

        Raises:
            PolicyError: the schema cannot be columns.
            SchemaUnavailable: the file cannot be read.
        """
        place = self.path(path)
        try:
            return decoder(place, read_schema_file(place))
        except UnusableSchema as error:
            raise PolicyError(f"the schema {error.problem}.", path=place) from None


def _make_of(spec: Spec) -> Callable[[Any, Making], Any]:
    """Return the `make` of a spec's module. Effects: imports it."""
    make: Callable[[Any, Making], Any] = importlib.import_module(spec.made_by).make
    return make
