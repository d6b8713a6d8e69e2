"""A person whose key has other bytes, too: it is not gone while one of them is there."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logwright.erasure.certificate.keys import load_public
from logwright.erasure.certificate.model import Asked
from logwright.erasure.certificate.signed import read_certificate
from tests.e2e.command import Answer, call
from tests.log_builder import START_MS, LogBuilder

NOW = START_MS + 86_400_000
SECRET = "0123456789abcdef" * 4
WINDOW = (1_760_000_000_000).to_bytes(8, "big")


def framed(schema: int, payload: bytes) -> bytes:
    return b"\0" + schema.to_bytes(4, "big") + payload


FORMS = {
    "schema id": (framed(7, b"\x0aanna1"), framed(9, b"\x0aanna1")),
    "a record of Avro": (framed(7, b"\x02\x0aanna1"), framed(9, b"\x02\x0aanna1")),
    "spaces": (b'{"id":1,"at":"x"}', b'{"id": 1, "at": "x"}'),
    "order": (b'{"id":1,"at":"x"}', b'{"at":"x","id":1}'),
    "quotes": (b"anna1", b'"anna1"'),
    "a schema of Connect": (b"anna1", b'{"schema":{"type":"string"},"payload":"anna1"}'),
    "a window": (b"anna1", b"anna1" + WINDOW),
    "a session": (b"anna1", b"anna1" + WINDOW + WINDOW),
    "a window in a store": (b"anna1", b"anna1" + WINDOW + b"\0\0\0\0"),
}


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    assert call("certificate", "--new-key", tmp_path / "key").status == 0
    return tmp_path


def log(place: Path, *keys: bytes, partition: str = "t-0", start: int = 0) -> None:
    builder = LogBuilder(place / "logs", partition)
    builder.segment(start).batch(start, [(key, "value") for key in keys])
    builder.segment(start + len(keys)).batch(start + len(keys), [("last", "value")])
    builder.write()


def run(place: Path, command: str, key: bytes, *more: str | Path | int) -> Answer:
    (place / "keys").write_text(key.hex())
    return call(
        command,
        place / "logs",
        *("--keys", place / "keys", "--keys-format", "hex", "--secret", place / "secret"),
        *("--now", NOW, "--config", "cleanup.policy=compact"),
        *more,
    )


def erase(place: Path, key: bytes, *more: str | Path | int) -> Answer:
    return run(place, "erase", key, "--now-and-for-good", "--yes", *more)


def certify(place: Path, key: bytes, *more: str | Path | int) -> tuple[Answer, Asked]:
    answer = run(
        place, "certificate", key, "--signing-key", place / "key", "--out", place / "c.json", *more
    )
    made = read_certificate(place / "c.json", load_public(place / "key.pub"))
    return answer, made.requests[0]


@pytest.mark.parametrize("form", FORMS)
def test_the_record_under_another_form_is_named(place: Path, form: str) -> None:
    """By the certificate, its page, `erase` and `find`; by count and HMAC, never by its bytes."""
    key, other = FORMS[form]
    log(place, key, other, b"somebody else")
    done = erase(place, key)
    assert 9 == done.status, done.err
    assert "1 other keys are the same in another form" in done.out
    answer, entry = certify(place, key)
    assert (6, "gone as bytes", 0, 1) == (
        answer.status,
        entry.state,
        entry.found,
        len(entry.other_forms),
    )
    assert "close the case" not in answer.out
    page = (place / "c.html").read_text()
    assert "Gone as these bytes" in page
    assert "close the case" not in page.lower()
    find = run(place, "find", key, "--output", "json")
    assert 9 == find.status
    rows = [json.loads(line) for line in find.out.splitlines()]
    assert [list(entry.other_forms)] == [one["otherForms"] for one in rows if "otherForms" in one]


@pytest.mark.parametrize("form", FORMS)
def test_without_another_form_it_is_gone(place: Path, form: str) -> None:
    """Nor are keys that only look alike."""
    key, _ = FORMS[form]
    log(
        place, key, b"anna2", b'"anna"', b'{"id":2,"at":"x"}', b"anna1-and-bob", framed(9, b"\x02x")
    )
    assert 0 == erase(place, key).status
    answer, entry = certify(place, key)
    assert (0, "gone", ()) == (answer.status, entry.state, entry.other_forms)
    assert "close the case" in (place / "c.html").read_text().lower()
    assert 0 == run(place, "find", key).status


def test_a_copy_of_the_topic_is_named(place: Path) -> None:
    """MirrorMaker's has the source's alias before it. A pattern of topics asks for it, too."""
    log(place, b"anna1")
    log(place, b"anna1", partition="us.t-0")
    log(place, b"anna1", partition="other-0")
    assert 9 == erase(place, b"anna1", "--topic", "t").status
    answer, entry = certify(place, b"anna1", "--topic", "t")
    assert (6, "gone as bytes", 1) == (answer.status, entry.state, len(entry.other_forms))
    assert 0 == erase(place, b"anna1", "--topic", r"regex:(us\.)?t").status
    answer, entry = certify(place, b"anna1", "--topic", r"regex:(us\.)?t")
    assert (0, "gone") == (answer.status, entry.state)


def decoded(place: Path, command: str, text: str, *more: str | Path | int) -> Answer:
    (place / "decoded").write_text(text + "\n")
    return call(
        command,
        place / "logs",
        *("--keys", place / "decoded", "--keys-format", "decoded", "--secret", place / "secret"),
        *("--now", NOW, "--config", "cleanup.policy=compact"),
        *more,
    )


def test_a_decoded_key_is_erased_in_every_form(place: Path) -> None:
    """And one that comes later in another form remains."""
    keys = [one for form in FORMS for one in FORMS[form] if b"id" not in one and b"\x02" not in one]
    keys = list(dict.fromkeys(keys))
    log(place, *keys, b"anna2")
    find = decoded(place, "find", "anna1", "--output", "json")
    assert 8 == find.status
    rows = [json.loads(line) for line in find.out.splitlines()]
    assert [*range(len(keys))] == [one["offset"] for one in rows if "offset" in one]
    assert 0 == decoded(place, "erase", "anna1", "--now-and-for-good", "--yes").status
    words = ("--signing-key", place / "key", "--out", place / "c.json")
    assert 0 == decoded(place, "certificate", "anna1", *words).status
    made = read_certificate(place / "c.json", load_public(place / "key.pub"))
    assert [("gone", True)] == [(one.state, one.decoded) for one in made.requests]
    log(place, framed(77, b"\x0aanna1"), partition="t-1")
    assert 6 == decoded(place, "certificate", "anna1", *words).status
    made = read_certificate(place / "c.json", load_public(place / "key.pub"))
    assert [("remains", 1)] == [(one.state, one.found) for one in made.requests]


def test_a_decoded_key_of_json(place: Path) -> None:
    """Its fields in any order; a landing file gives it as `key_decoded`."""
    log(place, b'{"id":1,"at":"x"}', b'{"at": "x", "id": 1}', b'{"id":2,"at":"x"}')
    (place / "landing").mkdir()
    row = {
        "id": "r1",
        "topics": "t",
        "key_decoded": '{"at":"x", "id":1}',
        "received_at": 0,
        "deadline": NOW * 2,
    }
    (place / "landing/r.jsonl").write_text(json.dumps(row))
    words = ("--requests", place / "landing", "--secret", place / "secret")
    done = call("erase", place / "logs", *words, "--now-and-for-good", "--yes", "--now", NOW)
    assert 0 == done.status, done.err
    left = call("find", place / "logs", *words, "--now", NOW, "--output", "json")
    assert 0 == left.status
    other = decoded(place, "find", '{"id":2,"at":"x"}', "--output", "json")
    assert 8 == other.status


def test_what_needs_a_schema(place: Path) -> None:
    """Records of Avro whose later schema has a field more; a key that cannot be decoded is named as
    not searched, and leaves a decoded request not proved.
    """
    field = {"name": "id", "type": "string"}
    more = {"name": "region", "type": ["null", "string"], "default": None}
    for number, fields in ((7, [field]), (9, [field, more])):
        schema = {"type": "record", "name": "Key", "fields": fields}
        (place / "schemas").mkdir(exist_ok=True)
        (place / f"schemas/{number}.avsc").write_text(json.dumps(schema))
    (place / "policies").mkdir()
    spec = f"{{format: registry, schemas: {place / 'schemas'}, schema_id: 9}}"
    (place / "policies/t.yml").write_text(
        "version: 1\ntopics:\n  - name: t\n"
        f"    table: {{format: parquet, path: {place / 'table'}, key: {spec}}}\n"
    )
    policies = ("--policies", place / "policies")
    log(place, framed(7, b"\x0aanna1"), framed(9, b"\x0aanna1\0"), framed(9, b"\x0aanna2\0"))
    find = decoded(place, "find", '{"id": "anna1"}', "--output", "json", *policies)
    rows = [json.loads(line) for line in find.out.splitlines()]
    assert [0, 1] == [one["offset"] for one in rows if "offset" in one]
    assert 9 == find.status  # "last" is not a key of this format
    named = "1 keys cannot be decoded, and may be requested ones in another form"
    assert named in {one.get("problem") for one in rows}


@pytest.mark.parametrize(
    ("key", "is_legible"),
    [
        (framed(7, b"\x02\x0aanna1"), False),
        ((42).to_bytes(8, "big"), False),
        (bytes(range(200, 216)), False),
        (framed(7, b"\x0aanna2"), True),
        (framed(7, b'{"id":"anna2"}'), True),
        ("Ännchen".encode(), True),
        (b"anna2" + WINDOW, True),
    ],
    ids=["record", "number", "bytes", "string", "JSON", "text", "window"],
)
def test_without_a_schema_only_text_is_read(place: Path, key: bytes, *, is_legible: bool) -> None:
    """Any other key may be the requested one: it is named as not searched."""
    log(place, key)
    find = decoded(place, "find", "anna1")
    assert (0 if is_legible else 9) == find.status, find.out
    named = "1 keys cannot be decoded, and may be requested ones in another form"
    assert is_legible != (named in find.out)
    words = ("--signing-key", place / "key", "--out", place / "c.json")
    assert (0 if is_legible else 6) == decoded(place, "certificate", "anna1", *words).status
    erased = decoded(place, "erase", "anna1", "--now-and-for-good", "--yes")
    assert (0 if is_legible else 9) == erased.status


def test_keys_of_a_table_without_a_schema(place: Path) -> None:
    """The same in the column of the keys as they are in the log."""
    log(place, b"anna2")
    (place / "table").mkdir()
    for key, status in ((b"anna2", 0), (framed(7, b"\x02\x0aanna1"), 9)):
        column = pa.array([key], pa.binary())
        pq.write_table(pa.table({"key": column, "other": [key.hex()]}), place / "table/x.parquet")
        find = decoded(place, "find", "anna1", "--table", place / "table")
        assert status == find.status, find.out
        assert ("1 keys cannot be decoded" in find.out) == (status == 9)


def test_a_decoded_key_by_tombstones(place: Path) -> None:
    """Each form that is alive gets one."""
    log(place, b"anna1", b'"anna1"', b"anna2")
    done = decoded(place, "erase", "anna1", "--yes", "--output", "json")
    assert 8 == done.status, done.err
    find = decoded(place, "find", "anna1", "--output", "json")
    rows = [json.loads(line) for line in find.out.splitlines()]
    assert 2 == sum(one.get("kind") == "tombstone" for one in rows)


def test_only_an_hmac_is_not_proved_of_a_person(place: Path) -> None:
    """Nobody can look for other forms of a key that is not known."""
    import hmac  # noqa: PLC0415 -- here alone

    log(place, b"anna1")
    assert 0 == erase(place, b"anna1").status
    digest = hmac.digest(SECRET.encode(), b"anna1", "sha256").hex()
    row = {"id": "r1", "topics": "t", "hmac": digest, "received_at": 0, "deadline": NOW * 2}
    (place / "landing").mkdir()
    (place / "landing/r.jsonl").write_text(json.dumps(row))
    words = ("--requests", place / "landing", "--secret", place / "secret", "--now", NOW)
    answer = call(
        "certificate",
        place / "logs",
        *words,
        *("--signing-key", place / "key", "--out", place / "c.json"),
    )
    made = read_certificate(place / "c.json", load_public(place / "key.pub"))
    assert (6, "gone as bytes") == (answer.status, made.requests[0].state)
    assert "only the HMAC of its key is known" in made.requests[0].why
