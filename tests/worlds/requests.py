"""Requests as people write them, right and wrong, and what they mean."""

from __future__ import annotations

import base64
import hmac
import json
import random
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

SECRET: Final = b"s" * 64
ALL: Final = "regex:.*"
PERSONS: Final = tuple(f"{name}@x.example".encode() for name in ("alice", "bob", "carol", "dora"))
PATTERN: Final = b"CARD-4929-1183"
"""What a person's values hold."""
CUSTOMERS: Final = "customers"
ORDERS: Final = "orders"
LONG: Final = "t" * 240
TOPICS: Final = (CUSTOMERS, ORDERS, LONG)
RIGHT: Final = (
    ALL,
    CUSTOMERS,
    ORDERS,
    LONG,
    "regex:cust.*",
    "regex:(customers|orders)",
    "regex:t+",
)
WRONG: Final = ("customers.*", "customers ", "Customers", "customers-0", "regex:customer")
WRONG_TOO: Final = ("regex:", "regex:[", "custmers", "regex:.*-0", "order")
Form = Literal["key", "key_base64", "key_decoded", "hmac"]
"""How the key is written in a row, or meant in a file of keys."""
Encoding = Literal[
    "plain", "crlf", "bom", "utf16", "nul", "space", "nbsp", "quoted", "no end", "tab"
]
BY_FILE: Final = ("keys", "base64", "decoded")
"""Ways to ask by a file of keys."""
REFUSED: Final = ("bom", "utf16", "nul")
"""Ways to write a line that are never meant as they stand."""
DOUBTFUL: Final = ("space", "nbsp", "quoted", "tab")
"""Legal keys that are seldom meant."""
_MARKS: Final[dict[Encoding, tuple[str, str, str]]] = {
    "plain": ("", "\n", "utf-8"),
    "crlf": ("", "\r\n", "utf-8"),
    "bom": ("", "\n", "utf-8-sig"),
    "utf16": ("", "\n", "utf-16"),
    "nul": ("", "\x00\n", "utf-8"),
    "space": ("", " \n", "utf-8"),
    "nbsp": ("", "\u00a0\n", "utf-8"),
    "quoted": ('"', '"\n', "utf-8"),
    "no end": ("", "\n", "utf-8"),
    "tab": ("", "\t\n", "utf-8"),
}


def other_forms(key: bytes) -> tuple[bytes, ...]:
    """Other bytes that are the same key: as JSON, with an id of a schema, as text of Avro with one,
    with a window of Kafka Streams, and with the schema of Connect.
    """
    text, size = key.decode(), bytes((2 * len(key),))
    connect = {"schema": {"type": "string", "optional": False}, "payload": text}
    return (
        json.dumps(text).encode(),
        b"\0\0\0\0\7" + key,
        b"\0\0\0\1\2" + size + key,
        key + struct.pack(">q", 1_800_000_000_000),
        json.dumps(connect).encode(),
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """One request.

    Attributes:
        key: of the person that is meant.
        topics: as written. deadline_ms: None without one.
        form: of the key.
    """

    key: bytes
    topics: str = ALL
    deadline_ms: int | None = None
    form: Form = "key"

    @property
    def is_decoded(self) -> bool:
        """Whether all forms of the key are asked for."""
        return self.form == "key_decoded"

    @property
    def digest(self) -> str:
        """HMAC-SHA-256 of the key, in hex."""
        return hmac.digest(SECRET, self.key, "sha256").hex()

    def is_about(self, topic: str | None) -> bool:
        """Whether a record of the topic is one of the request's; without a topic it always is."""
        return topic is None or matches(self.topics, topic)


def matches(spec: str, topic: str) -> bool:
    """Whether a topic is one of these."""
    if not spec.startswith("regex:"):
        return spec == topic
    try:
        return re.fullmatch(spec.removeprefix("regex:"), topic) is not None
    except re.error:
        return False


def is_valid(spec: str) -> bool:
    """Whether a text can be a topic's name, or is a pattern."""
    if spec.startswith("regex:"):
        try:
            re.compile(spec.removeprefix("regex:"))
        except re.error:
            return False
        return spec != "regex:"
    return re.fullmatch(r"[A-Za-z0-9._-]{1,249}", spec) is not None


@dataclass(frozen=True, slots=True)
class Asking:
    """All that one call is asked.

    Attributes:
        way: by a file of keys, a landing directory, or the store.
        pattern: bytes to be searched in values.
    """

    requests: tuple[Asked, ...]
    way: Literal["keys", "base64", "decoded", "landing", "store"] = "keys"
    encoding: Encoding = "plain"
    pattern: bytes | None = None

    @property
    def asked(self) -> tuple[Asked, ...]:
        """The requests that a command gets: a store has no row that its landing has refused."""
        if self.way != "store":
            return self.requests
        return tuple(one for one in self.requests if is_valid(one.topics))

    @property
    def is_refused(self) -> bool:
        """Whether the file of keys is written in a way that is never meant."""
        return self.way == "keys" and self.encoding in REFUSED

    @property
    def is_doubtful(self) -> bool:
        """Whether its lines are legal keys, and probably not those that are meant."""
        return self.way == "keys" and self.encoding in DOUBTFUL


def draw_asking(draw: random.Random, now_ms: int) -> Asking:
    """What is asked in one world."""
    pattern = PATTERN if draw.random() < 0.25 else None
    topics = RIGHT if draw.random() < 0.85 else (*WRONG, *WRONG_TOO)
    persons = draw.sample(PERSONS, draw.randint(1, 2))
    deadline = draw.choice((None, None, now_ms - 1, now_ms + 10**12))
    way = draw.choice(("keys", "base64", "decoded", "landing", "landing", "store"))
    if way in BY_FILE:
        spec = draw.choice(topics) if draw.random() < 0.6 else ALL
        form: Form = "key_decoded" if way == "decoded" else "key"
        requests = tuple(Asked(key, spec, deadline, form) for key in persons)
        encodings: tuple[Encoding, ...] = tuple(_MARKS) if way == "keys" else ("crlf", "no end")
        encoding = draw.choice(encodings) if draw.random() < 0.35 else "plain"
        return Asking(requests, way, encoding, pattern)  # type: ignore[arg-type]  # one of two
    requests = tuple(
        Asked(
            key,
            draw.choice(topics),
            draw.choice((now_ms - 1, now_ms + 10**6, now_ms + 10**12)),
            draw.choice(("key", "key_base64", "key_decoded", "hmac")),
        )
        for key in persons
        for _ in range(draw.choice((1, 2)))
    )
    return Asking(tuple(dict.fromkeys(requests)), way, "plain", pattern)  # type: ignore[arg-type]  # as above


def words(asking: Asking, root: Path) -> list[str]:
    """The options of a call. Effects: writes what they name below `root`."""
    secret = root / "secret"
    secret.write_bytes(SECRET + b"\n")
    secret.chmod(0o600)
    given = ["--secret", str(secret)]
    if asking.way in BY_FILE:
        given += ["--keys", str(root / "keys"), "--topic", asking.requests[0].topics]
        keys = [one.key for one in asking.requests]
        if asking.way == "base64":
            given += ["--keys-format", "base64"]
            keys = [base64.b64encode(key) for key in keys]
        elif asking.way == "decoded":
            given += ["--keys-format", "decoded"]
        (root / "keys").write_bytes(encoded(keys, asking.encoding))
    else:
        given += ["--requests", str(root / "requests")]
        write_rows(asking, root / "requests")
    return given


def pattern_words(asking: Asking, root: Path) -> list[str]:
    """The option of a search for a pattern. Effects: writes its file."""
    if asking.pattern is None:
        return []
    path, base = root / "patterns", asking.way == "base64"
    path.write_bytes((base64.b64encode(asking.pattern) if base else asking.pattern) + b"\n")
    return ["--pattern", str(path)]


def encoded(keys: list[bytes], encoding: Encoding) -> bytes:
    """A file of keys, a line for each."""
    before, after, charset = _MARKS[encoding]
    text = "".join(f"{before}{key.decode()}{after}" for key in keys)
    return (text.rstrip("\n") if encoding == "no end" else text).encode(charset)


def write_rows(asking: Asking, directory: Path) -> None:
    """A landing directory. Effects: makes it."""
    directory.mkdir(exist_ok=True)
    lines = []
    for number, request in enumerate(asking.requests):
        key = {
            "key": request.key.decode(),
            "key_base64": base64.b64encode(request.key).decode(),
            "key_decoded": request.key.decode(),
            "hmac": request.digest,
        }[request.form]
        row = {"id": f"r{number}", "topics": request.topics, request.form: key, "received_at": 1}
        lines.append(json.dumps({**row, "deadline": request.deadline_ms}))
    (directory / "rows.jsonl").write_text("\n".join(lines) + "\n")
