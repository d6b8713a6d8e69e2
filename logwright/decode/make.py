"""Make the decoder of a topic from its specs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from logwright.config.decoding import (
    AvroSpec,
    DebeziumSpec,
    DecoderSpec,
    Decoding,
    InternalSpec,
    JsonSpec,
    ProtobufSpec,
    RegistrySpec,
    ScalarSpec,
    resolve,
)
from logwright.decode.avro import AvroDecoder
from logwright.decode.avro_schema import parse_avro
from logwright.decode.connect import ConnectDecoder
from logwright.decode.debezium import AFTER, DebeziumDecoder, envelope_fields
from logwright.decode.infer import infer_fields
from logwright.decode.internal import InternalDecoder
from logwright.decode.json_fields import UnusableSchema
from logwright.decode.model import Decoder, PartDecoder
from logwright.decode.protobuf import ProtobufDecoder
from logwright.decode.protoc import compile_file
from logwright.decode.registry import RegistryDecoder, UnknownSchema, used_schemas
from logwright.decode.rows import RowsDecoder
from logwright.decode.scalars import ScalarDecoder
from logwright.decode.schema_sources import (
    SchemaDirectory,
    SchemaRegistry,
    SchemaSource,
    read_schema_file,
)
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
    known = _Sample(sample)
    if isinstance(decoding.value, InternalSpec):
        name = known.topic() if topic is None else topic
        return InternalDecoder(name, decoding)
    is_event = isinstance(decoding.value, DebeziumSpec)
    key = _Maker(base, known, "key", is_event=is_event).make(decoding.key)
    value = _Maker(base, known, "value", is_event=is_event).make(decoding.value)
    done = Decoding(key=key.spec, value=value.spec)
    return RowsDecoder(key=key.decoder, value=value.decoder, decoding=done)


class _Sample:
    """The first batches of a topic, read once, when they are asked for."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._taken: list[pa.RecordBatch] = []

    def columns(self, part: str) -> Iterator[pa.Array]:
        """Yield the keys or values."""
        for batch in self._all():
            yield batch.column(part).cast(pa.binary())

    def topic(self) -> str:
        """Return the topic of the first record.

        Raises:
            PolicyError: there is none.
        """
        for batch in self._all():
            if batch.num_rows:
                return str(batch.column("topic")[0].as_py())
        raise PolicyError("The format kafka-internal needs the name of the topic.")

    def _all(self) -> Iterator[pa.RecordBatch]:
        yield from self._taken
        size = sum(batch.nbytes for batch in self._taken)
        for batch in self._batches:
            self._taken.append(batch)
            yield batch
            size += batch.nbytes
            if size > _SAMPLE_BYTES:
                return


class _Made(NamedTuple):
    """A decoder, and the spec that makes it again."""

    decoder: PartDecoder
    spec: DecoderSpec


class _Maker:
    """Makes the decoder of keys or values."""

    def __init__(self, base: Path, sample: _Sample, part: str, *, is_event: bool) -> None:
        self._base = base
        self._sample = sample
        self._part = part
        self._is_event = is_event

    def make(self, spec: DecoderSpec) -> _Made:
        """Return the decoder of a spec."""
        if isinstance(spec, ScalarSpec):
            return _Made(ScalarDecoder(spec.format), spec)
        if isinstance(spec, JsonSpec):
            done = self._with_fields(spec, None)
            return _Made(ConnectDecoder(done.fields or (), is_event=self._is_event), done)
        if isinstance(spec, DebeziumSpec):
            return self._debezium(spec)
        if isinstance(spec, RegistrySpec):
            return self._registry(spec)
        if isinstance(spec, InternalSpec):
            raise PolicyError("The format kafka-internal is for key and value together.")
        path = self._resolved(spec.schema_file)
        try:
            return _Made(_of_file(spec, path), spec)
        except UnusableSchema as error:
            raise PolicyError(f"the schema {error.problem}.", path=path) from None

    def _debezium(self, spec: DebeziumSpec) -> _Made:
        if isinstance(spec.of, JsonSpec):
            inner = self._with_fields(spec.of, AFTER)
            fields = envelope_fields(inner.fields or ())
            envelope: PartDecoder = ConnectDecoder(fields, is_event=True)
            of: JsonSpec | AvroSpec | RegistrySpec = inner
        else:
            (envelope, made) = self.make(spec.of)
            of = spec.of if not isinstance(made, AvroSpec | RegistrySpec) else made
        try:
            return _Made(DebeziumDecoder(envelope), DebeziumSpec(of=of))
        except UnusableSchema as error:
            raise PolicyError(f"The schema of the {self._part} {error.problem}.") from None

    def _with_fields(self, spec: JsonSpec, inside: str | None) -> JsonSpec:
        """Return a spec with fields, inferred if it has none."""
        if spec.fields is not None:
            return spec
        columns = self._sample.columns(self._part)
        fields = infer_fields(columns, is_event=self._is_event, inside=inside)
        if not fields:
            raise PolicyError(
                f"The fields of the {self._part} cannot be inferred: no JSON object with fields"
                " among the first records.",
                remedy="Set schema.",
            )
        return JsonSpec(fields=fields)

    def _registry(self, spec: RegistrySpec) -> _Made:
        source: SchemaSource
        if spec.url is not None:
            source, place = SchemaRegistry(spec.url), spec.url
        else:
            directory = self._resolved(spec.schemas or "")
            source, place = SchemaDirectory(directory), str(directory)
        used: dict[int, tuple[int, ...]] = {}
        if spec.schema_id is None or spec.message is None:
            used = used_schemas(self._sample.columns(self._part))
        ids = list(used) if spec.schema_id is None else [spec.schema_id]
        for schema_id in ids:
            indexes = used.get(schema_id, (0,))
            try:
                made = RegistryDecoder(source, schema_id, message=spec.message, indexes=indexes)
            except UnusableSchema as error:
                if isinstance(error, UnknownSchema) and schema_id != ids[-1]:
                    continue
                raise PolicyError(f"{place}: schema {schema_id} {error.problem}.") from None
            done = {"schema_id": schema_id, "message": made.message}
            return _Made(made, spec.model_copy(update=done))
        raise PolicyError(
            f"The schema of the {self._part} is unknown: no record with a schema's id among"
            " the first ones.",
            remedy="Set schema_id.",
        )

    def _resolved(self, path: str) -> Path:
        try:
            return resolve(self._base, path)
        except ValueError as error:
            raise PolicyError(f"{path} {error}.") from None


def _of_file(spec: AvroSpec | ProtobufSpec, path: Path) -> PartDecoder:
    """Return the decoder of a schema file. Effects: reads it."""
    content = read_schema_file(path)
    if isinstance(spec, AvroSpec):
        return AvroDecoder(parse_avro(content))
    return ProtobufDecoder(compile_file(path).message(spec.message))
