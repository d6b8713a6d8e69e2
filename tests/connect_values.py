"""Random values of the types of Kafka Connect and Debezium: what is put in, and what it must be
decoded to.
"""

from __future__ import annotations

import base64
import datetime as dt
import struct
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

UTC = dt.UTC
TEXTS = ("", "a", "größe€", "x" * 40, '{"a": [1, "b"]}', "\u2028")
FIRST, LAST = dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, tzinfo=UTC)
NANO_FIRST, NANO_LAST = dt.datetime(1678, 1, 1, tzinfo=UTC), dt.datetime(2262, 1, 1, tzinfo=UTC)
"""The years that 64 bits of nanoseconds have."""


class Made(NamedTuple):
    """A value.

    Attributes:
        given: what is put in, for the converter's process; None: null.
        expected: what the column has.
    """

    given: Any
    expected: Any


NULL = Made(None, None)
Make = Callable[[Random], Made]


def moment(draw: Random, first: dt.datetime, last: dt.datetime) -> dt.datetime:
    """A moment; near 1970 as often as anywhere, where units are taken for each other."""
    if draw.random() < 0.4:
        first, last = dt.datetime(1969, 1, 1, tzinfo=UTC), dt.datetime(1972, 1, 1, tzinfo=UTC)
    span = (last - first) // dt.timedelta(microseconds=1)
    return first + dt.timedelta(microseconds=draw.randrange(span))


def timestamp(digits: int, zone: str = "") -> Make:
    """A timestamp with this many digits of a second; what is below a microsecond is cut off."""

    def make(draw: Random) -> Made:
        time = moment(draw, *((NANO_FIRST, NANO_LAST) if digits == 9 else (FIRST, LAST)))
        if digits == 3:
            time = time.replace(microsecond=time.microsecond // 1000 * 1000)
        text = f"{time.replace(tzinfo=None, microsecond=0).isoformat()}.{time.microsecond:06}"
        rest = f"{draw.randrange(1000):03}" if digits == 9 else ""
        return Made(f"{text}{rest}{zone}", time)

    return make


def zoned(draw: Random) -> Made:
    """A timestamp with an offset."""
    made = timestamp(9)(draw)
    offset = dt.timedelta(minutes=draw.randrange(-18 * 60, 18 * 60 + 1))
    local = (made.expected + offset).replace(tzinfo=None)
    minutes = offset // dt.timedelta(minutes=1)
    sign, minutes = "-" if minutes < 0 else "+", abs(minutes)
    text = f"{local.replace(microsecond=0).isoformat()}{made.given[19:]}"
    return Made(f"{text}{sign}{minutes // 60:02}:{minutes % 60:02}", made.expected)


def date(draw: Random) -> Made:
    """A day."""
    day = moment(draw, FIRST, LAST).date()
    return Made(day.isoformat(), day)


def clock(digits: int) -> Make:
    """A time of day with this many digits."""

    def make(draw: Random) -> Made:
        count = draw.randrange(86_400 * 10**digits)
        seconds, rest = divmod(count, 10**digits)
        hours, minutes = seconds // 3600, seconds // 60 % 60
        text = f"{hours:02}:{minutes:02}:{seconds % 60:02}.{rest:0{digits}}"
        return Made(text, text)

    return make


def wide_clock(draw: Random) -> Made:
    """A time as MySQL has it: below zero, and of many days."""
    if draw.random() < 0.5:
        return clock(6)(draw)
    hours, minutes, micros = draw.randrange(839), draw.randrange(60), draw.randrange(60_000_000)
    sign = draw.choice(["", "-"])
    seconds = f"{micros // 1_000_000:02}.{micros % 1_000_000:06}"
    if not hours and not minutes and not micros:
        sign = ""
    return Made(f"{sign}PT{hours}H{minutes}M{seconds}S", f"{sign}{hours:02}:{minutes:02}:{seconds}")


def iso_time(draw: Random) -> Made:
    """A time as Debezium's ISO text: without a fraction that is zero."""
    seconds = draw.randrange(86_400)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return Made(text, f"{text}Z")


def zoned_time(draw: Random) -> Made:
    """A time with an offset."""
    text = f"{iso_time(draw).given}.{draw.randrange(100):02}{draw.randint(1, 9)}+02:00"
    return Made(text, text)


def duration(digits: int) -> Make:
    """A span of seconds."""

    def make(draw: Random) -> Made:
        count = draw.randrange(10 ** (digits + 8)) * draw.choice([1, -1])
        seconds, rest = divmod(abs(count), 10**digits)
        text = f"PT{'-' if count < 0 else ''}{seconds}.{rest:0{digits}}S"
        return Made(text, text)

    return make


def interval(draw: Random) -> Made:
    """A span with months, which no number has."""
    (years, months, days, hours, minutes) = (draw.randrange(1, 12) for _ in range(5))
    seconds = f"{draw.randrange(60)}.{draw.randrange(10**5):05}{draw.randint(1, 9)}"
    text = f"P{years}Y{months}M{days}DT{hours}H{minutes}M{seconds}S"
    return Made([years, months, days, hours, minutes, seconds], text)


def whole(bits: int) -> Make:
    """A whole number; the ends are drawn now and then."""

    def make(draw: Random) -> Made:
        most = 2 ** (bits - 1)
        number = draw.choice([-most, most - 1, 0, draw.randrange(-most, most)])
        return Made(str(number), number)

    return make


def double(draw: Random) -> Made:
    """A double, also those that JSON does not have."""
    text = draw.choice(["NaN", "Infinity", "-Infinity", "0.1", "-0.0", "1e300", "123456789.125"])
    text = text if draw.random() < 0.5 else repr(draw.uniform(-1e6, 1e6))
    return Made(text, float(text))


def single(draw: Random) -> Made:
    """A float."""
    text = draw.choice(["NaN", "Infinity", "0.1", "3.4028235E38", "16777217", "1e-45"])
    return Made(text, struct.unpack(">f", struct.pack(">f", float(text)))[0])


def text(draw: Random) -> Made:
    """Any text."""
    text_drawn = draw.choice(TEXTS)
    return Made(text_drawn, text_drawn)


def chosen(*choices: str) -> Make:
    """One of some texts."""

    def make(draw: Random) -> Made:
        choice = draw.choice(choices)
        return Made(choice, choice)

    return make


def octets(draw: Random) -> Made:
    """Bytes."""
    content = draw.randbytes(draw.randrange(20))
    return Made(base64.b64encode(content).decode(), content)


def truth(draw: Random) -> Made:
    """A boolean."""
    truth_drawn = draw.random() < 0.5
    return Made(truth_drawn, truth_drawn)


def digits(draw: Random, most: int, scale: int) -> Decimal:
    """A decimal of at most this number of digits."""
    number = draw.randrange(10 ** draw.randint(0, most))
    sign = draw.randrange(2) if number else 0
    return Decimal((sign, tuple(map(int, str(number))), -scale))


def variable(draw: Random) -> Made:
    """A decimal with its own scale, of more digits than columns of decimals have."""
    number = digits(draw, 60, draw.randrange(30))
    return Made(f"{number:f}", f"{number:f}")
