"""JSON as configured: fields by a schema, or inferred from the first records."""

from __future__ import annotations

from logwright.config.decoding import JsonSpec
from logwright.decode.connect import ConnectDecoder
from logwright.decode.infer import infer_fields
from logwright.decode.make import Made, Making
from logwright.errors import PolicyError


def make(spec: JsonSpec, making: Making) -> Made:
    """Return the decoder of a spec. Effects, errors: as `with_fields`."""
    done = with_fields(spec, making)
    return Made(ConnectDecoder(done.fields or (), is_event=making.is_event), done)


def with_fields(spec: JsonSpec, making: Making, *, inside: str | None = None) -> JsonSpec:
    """Return a spec with fields, inferred if it has none. Effects: may read the first records.

    Args:
        inside: the field whose fields are inferred.

    Raises:
        PolicyError: there are none.
    """
    if spec.fields is not None:
        return spec
    fields = infer_fields(making.columns(), is_event=making.is_event, inside=inside)
    if not fields and all(column.null_count == len(column) for column in making.columns()):
        raise PolicyError(
            f"The fields of the {making.part} cannot be inferred: no record that was looked at has"
            f" a {making.part}, as tombstones have no value.",
            remedy=f"Set schema, or run it again when there are records with a {making.part}.",
        )
    if not fields:
        raise PolicyError(
            f"The fields of the {making.part} cannot be inferred: no JSON object with fields"
            " among the first records.",
            remedy="Set schema.",
        )
    return JsonSpec(fields=fields)
