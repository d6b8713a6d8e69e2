"""Events that Kafka Connect's own converters, of JSON and Avro, wrote of Debezium's own types are
decoded to the values that were put in.
"""

from __future__ import annotations

import pytest

from tests.connect_columns import MAKE
from tests.connect_events import run

pytestmark = pytest.mark.oracle

COUNT, NIGHTLY_COUNT = 60, 3_000


@pytest.mark.parametrize("count", [COUNT, pytest.param(NIGHTLY_COUNT, marks=pytest.mark.nightly)])
def test_values_are_those_that_were_put_in(count: int, seed: int) -> None:
    """To the microsecond, whatever the schema, and a column that contradicts it is refused."""
    figures = run(count, seed)
    assert [] == figures.differences
    assert count == figures.topics == figures.refused
    assert 5 * count < figures.times
    assert 10 * count < figures.in_avro.total()
    assert figures.unwritten < count
    if count == NIGHTLY_COUNT:
        assert MAKE.keys() <= figures.values.keys()
        assert MAKE.keys() <= figures.in_avro.keys()
