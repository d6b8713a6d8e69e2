"""No key in what a certificate leaves, wherever a name has it: a topic, a file, a path, topics that
were asked for, the id of a request.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from logwright.erasure.names import HIDDEN
from tests.e2e.command import Answer, call
from tests.log_builder import START_MS, LogBuilder

pytestmark = pytest.mark.e2e

KEY: Final = "anna.smith-0815"
NOW_MS: Final = START_MS + 86_400_000
FORMS: Final = (
    KEY,
    quote(KEY, safe=""),
    KEY.encode().hex(),
    KEY.encode().hex().upper(),
    base64.b64encode(KEY.encode()).decode().rstrip("="),
)


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """A directory whose own name, a topic, files and directories have the key."""
    log_dir = tmp_path / f"of-{KEY}" / "logs"
    for topic in (f"inbox-{KEY}", "t"):
        log = LogBuilder(log_dir, f"{topic}-0")
        log.segment(0).batch(0, [(KEY, "1"), ("other", "2")])
        log.segment(2)
        log.write()
    for form in FORMS:
        (log_dir / "t-0" / f"{form}.txt").write_text("not records")
        (log_dir / "exports" / form).mkdir(parents=True, exist_ok=True)
        (log_dir / "exports" / form / "a").write_text(f"not records, either: {FORMS.index(form)}")
    (tmp_path / "keys").write_text(f"{KEY}\n")
    (tmp_path / "secret").write_text("s" * 40)
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "out").mkdir()
    assert 0 == call("certificate", "--new-key", tmp_path / "out/key").status
    return tmp_path


def landed(place: Path, name: str, topics: str) -> tuple[str | Path, ...]:
    """A landing directory with a request whose key is in base64."""
    (place / "in").mkdir(exist_ok=True)
    row = {"id": name, "topics": topics, "received_at": 1, "deadline": NOW_MS + 5}
    row |= {"key_base64": base64.b64encode(KEY.encode()).decode()}
    (place / "in/r.jsonl").write_text(json.dumps(row))
    return ("--requests", place / "in")


def certify(place: Path, *more: str | Path) -> Answer:
    return call(
        *("certificate", place / f"of-{KEY}" / "logs", "--secret", place / "secret"),
        *("--signing-key", place / "out/key", "--out", place / "out/c.json"),
        *("--now", NOW_MS, "--config", "cleanup.policy=compact", *more),
    )


def leaks(place: Path, *answers: Answer) -> list[tuple[str, str]]:
    """(Where, form) of the key in what the commands left and said."""
    texts = {path.name: path.read_text() for path in (place / "out").iterdir()}
    texts |= {f"{number}": each.out + each.err for number, each in enumerate(answers)}
    return [
        (where, form)
        for where, text in texts.items()
        for form in {*FORMS, KEY.encode().hex(" ")}
        if form.lower() in text.lower()
    ]


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("topics", ["regex:.*", f"inbox-{KEY}"])
@pytest.mark.parametrize("stored", [False, True])
def test_no_key_is_signed_or_shown(place: Path, output: str, topics: str, *, stored: bool) -> None:
    """Given in clear or landed; the rest of a name stays, and the files are compared as before."""
    wanted = (
        landed(place, "r-2041", topics) if stored else ("--keys", place / "keys", "--topic", topics)
    )
    made = certify(place, *wanted, "--output", output)
    assert 6 == made.status, made.err
    assert [] == leaks(place, made)
    signed = json.loads((place / "out/c.json").read_text())["certificate"]
    hidden = f"{HIDDEN}{signed['requests'][0]['hmac'][:16]}"
    assert f"inbox-{hidden}" in signed["topics"]
    assert {f"inbox-{hidden}", "t"} >= {record["topic"] for record in signed["remains"]}
    paths = [file["path"]["text"] for file in signed["manifest"]]
    assert f"t-0/{hidden}.txt" in paths
    assert f"inbox-{hidden}-0/00000000000000000000.log" in paths
    assert signed["directories"][0]["path"].endswith(f"of-{hidden}/logs")
    log_dir = place / f"of-{KEY}" / "logs"
    words = ("verify-certificate", place / "out/c.json", "--public-key", place / "out/key.pub")
    same = call(*words, log_dir)
    assert 0 == same.status, same.out
    (log_dir / "t-0" / f"{KEY}.txt").write_text("another one")
    (log_dir / "exports" / KEY / "a").unlink()
    assert 6 == call(*words, log_dir).status


@pytest.mark.parametrize("name", [KEY, f"case-{KEY}", KEY.encode().hex(), FORMS[-1]])
def test_an_id_with_the_key_is_refused(place: Path, name: str) -> None:
    """As text, hexadecimal digits or base64; nothing is written, and the id is not shown."""
    answer = certify(place, *landed(place, name, "t"))
    assert 2 == answer.status
    assert "has the key in its id" in answer.err
    assert [] == leaks(place, answer)
    assert not (place / "out/c.json").exists()
