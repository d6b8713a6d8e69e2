"""No key and no value of a record in anything that is said but by `dump`."""

from __future__ import annotations

import base64
import os
import struct
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.format.batch import walk_batches
from logwright.format.crc import crc32c
from tests.e2e.command import Answer, call, tree
from tests.log_builder import START_MS, LogBuilder

pytestmark = pytest.mark.e2e

SECRETS = [f"s3cret-{number:02d}-Zwölf/{number * 7919:06d}" for number in range(20)]
NOW_MS = START_MS + 86_400_000
CODECS = range(5)
WORDS = ("--config", "cleanup.policy=compact", "--now", NOW_MS, "--verbose")
COMMANDS = (
    ("inspect",),
    ("plan", "--forecast"),
    ("clean", "--yes", "--force", "--passes", "2"),
    ("purge", "--yes"),
    ("roll", "--yes", "--force"),
    ("retain", "--yes", "--config", "cleanup.policy=delete", "--config", "retention.bytes=0"),
    ("undo", "t-0", "--yes"),
    ("delete", "t-0", "--yes"),
    ("undo", "t-0", "--yes"),
    ("plan", "--forecast"),
    ("inspect",),
)


def plant(log_dir: Path, codec: int = 0) -> Path:
    """Twenty secrets: half of them keys, half values; some are tombstoned, some without a key."""
    log = LogBuilder(log_dir)
    keys, values = SECRETS[:10], SECRETS[10:]
    pairs = list(zip(keys, values, strict=True))
    first = log.segment(0)
    first.batch(0, pairs, codec=codec)
    first.batch(10, [(key, None) for key in keys[:3]], codec=codec)
    log.segment(13).batch(13, [(None, values[0]), *pairs[5:]], codec=codec)
    log.segment(19).batch(19, pairs[:2], codec=codec)
    log.write()
    return log_dir


def forms(secret: str) -> set[str]:
    """The ways in which bytes get into a text."""
    plain = secret.encode()
    shifted = {base64.b64encode(bytes(lead) + plain).decode()[4:-4] for lead in range(3)}
    return {
        secret,
        secret[:9],
        ascii(secret)[1:-1],
        repr(plain)[2:-1],
        plain.hex(),
        plain.hex(" "),
        urllib.parse.quote(secret),
        *shifted,
    }


def leaks(answer: Answer) -> list[str]:
    output = answer.out + answer.err
    return [form for secret in SECRETS for form in forms(secret) if form in output]


def second_batch(log: Path) -> tuple[int, int]:
    """Its position and its end."""
    span = list(walk_batches(log.read_bytes()))[1]
    return span.position, span.position + span.bytes


def patch(log: Path, position: int, content: bytes, *, fix_crc: bool) -> None:
    """Change bytes of the second batch; with `fix_crc` its CRC is right afterwards."""
    start, end = second_batch(log)
    data = bytearray(log.read_bytes())
    data[start + position : start + position + len(content)] = content
    if fix_crc:
        struct.pack_into(">I", data, start + 17, crc32c(bytes(data[start + 21 : end])))
    log.write_bytes(data)


def cut(log: Path) -> None:
    os.truncate(log, log.stat().st_size - 5)


FAULTS: dict[str, Callable[[Path], None]] = {
    "crc": lambda log: patch(log, 70, b"\xff", fix_crc=False),
    "record length": lambda log: patch(log, 61, b"\x7f", fix_crc=True),
    "key length": lambda log: patch(log, 65, b"\xff\xff\x03", fix_crc=True),
    "varint": lambda log: patch(log, 61, b"\xff" * 11, fix_crc=True),
    "record count": lambda log: patch(log, 57, b"\x00\x00\x00\x02", fix_crc=True),
    "not gzip": lambda log: patch(log, 22, b"\x01", fix_crc=True),
    "not snappy": lambda log: patch(log, 22, b"\x02", fix_crc=True),
    "not lz4": lambda log: patch(log, 22, b"\x03", fix_crc=True),
    "not zstd": lambda log: patch(log, 22, b"\x04", fix_crc=True),
    "codec": lambda log: patch(log, 22, b"\x06", fix_crc=True),
    "magic": lambda log: patch(log, 16, b"\x00", fix_crc=False),
    "length": lambda log: patch(log, 8, b"\x7f\xff\xff\xff", fix_crc=False),
    "offset": lambda log: patch(log, 0, bytes(8), fix_crc=False),
    "cut off": cut,
}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_said_of_a_good_log(tmp_path: Path, codec: int, form: str) -> None:
    """By every command, before and after, on stdout and stderr."""
    log_dir = plant(tmp_path / "logs", codec)
    for command, *more in COMMANDS:
        answer = call(command, log_dir, *WORDS, "--output", form, *more)
        assert 0 == answer.status, answer.err
        assert answer.out
        assert [] == leaks(answer)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_said_of_a_bad_log(tmp_path: Path, fault: str, form: str) -> None:
    """Errors name offsets, positions and lengths, nothing that was read there."""
    log_dir = plant(tmp_path / "logs")
    FAULTS[fault](log_dir / "t-0" / f"{0:020d}.log")
    before = tree(log_dir)
    answers = {
        command: call(command, log_dir, *WORDS, "--output", form, *more)
        for command, *more in COMMANDS[:3]
    }
    assert answers["clean"].status in (3, 4)
    assert "Error: " in answers["clean"].err
    for answer in answers.values():
        assert [] == leaks(answer)
    assert before == tree(log_dir)


def test_dump_is_where_they_are(tmp_path: Path) -> None:
    """This is how one sees that the secrets are there and would be found."""
    answer = call("dump", plant(tmp_path / "logs"))
    places_of = [
        secret for secret in SECRETS if base64.b64encode(secret.encode()).decode() in answer.out
    ]
    assert SECRETS == places_of
    assert len(SECRETS) <= len(leaks(answer))
