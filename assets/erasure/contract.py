"""The contract of the stored erasure requests: a frame with one row per request, without keys."""

from collections.abc import Sequence
from typing import Final

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaErrors

from logwright.erasure.request import Request

_HMAC: Final = r"^[0-9a-f]{64}$"
_LARGEST_FILTER: Final = 2**32 - 1


def _is_in_order(frame: pd.DataFrame) -> "pd.Series[bool]":
    """Require that no deadline is before the request."""
    return frame["deadline_ms"] >= frame["received_at_ms"]


REQUESTS: Final = pa.DataFrameSchema(
    {
        "id": pa.Column("object", pa.Check.str_length(min_value=1, error="id is not empty")),
        "topics": pa.Column(
            "object", pa.Check.str_length(min_value=1, error="topics is not empty")
        ),
        "hmac": pa.Column(
            "object", pa.Check.str_matches(_HMAC, error="hmac is 64 hexadecimal digits")
        ),
        "filter": pa.Column(
            "int64", pa.Check.in_range(-1, _LARGEST_FILTER, error="filter is a uint32, or -1")
        ),
        "received_at_ms": pa.Column("int64", pa.Check.ge(0, error="received_at_ms at least 0")),
        "deadline_ms": pa.Column("int64", pa.Check.ge(0, error="deadline_ms at least 0")),
    },
    checks=[pa.Check(_is_in_order, name="no deadline is before its request")],
    unique=["id"],
    strict=True,
    name="erasure_requests",
)


def broken_rules(requests: Sequence[Request]) -> dict[str, int]:
    """Return rule → number of requests that break it; empty: the contract holds."""
    frame = pd.DataFrame(
        {
            "id": pd.Series([one.id for one in requests], dtype="object"),
            "topics": pd.Series([one.topics for one in requests], dtype="object"),
            "hmac": pd.Series([one.hmac.hex() for one in requests], dtype="object"),
            "filter": pd.Series(
                [-1 if one.filter is None else one.filter for one in requests], dtype="int64"
            ),
            "received_at_ms": pd.Series([one.received_at_ms for one in requests], dtype="int64"),
            "deadline_ms": pd.Series([one.deadline_ms for one in requests], dtype="int64"),
        }
    )
    try:
        REQUESTS.validate(frame, lazy=True)
    except SchemaErrors as errors:
        cases = errors.failure_cases[["check", "index"]].drop_duplicates()
        return {str(rule): int(count) for rule, count in cases["check"].value_counts().items()}
    return {}
