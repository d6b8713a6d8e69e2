"""Wherever a person can hide in a log directory or a bucket, no request is said to be gone or not
found; and where nobody hides, no obstacle is made up.
"""

from __future__ import annotations

import random
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from logwright.bucket.store import Bucket
from logwright.erasure.certificate.make import Issue, Requested, make_certificate
from logwright.erasure.certificate.model import Certificate
from logwright.erasure.certificate.search import search
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.keys import KeySet
from logwright.place.model import Place
from logwright.place.named import place_of
from logwright.place.whole import contents_of
from tests.bucket.servers import NAME, environment, in_a_process
from tests.bucket_maintenance.copies import probed, put
from tests.found import SECRET, settings
from tests.hidden_in_buckets import (
    EVERY,
    IN_A_BUCKET,
    IN_A_DIRECTORY,
    ON_A_SERVER,
    PERSON,
    Hidden,
    N,
)
from tests.log_builder import START_MS, LogBuilder
from tests.unit.erasure.certificate.samples import VERSIONS

ABSENT = {"gone", "not found"}
DOCUMENT = Path(__file__).parents[4] / "docs" / "what-is-searched.md"
KEYS = KeySet.of(SECRET, clear=[PERSON])


@pytest.fixture(scope="module", name="agreement")
def _agreement(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return probed(tmp_path_factory.mktemp("probed"))


@pytest.fixture(scope="module", name="port")
def _port() -> Iterator[int]:
    with in_a_process() as port:
        yield port


def built(root: Path, *keys: str) -> Path:
    """A log directory with one log of one segment."""
    log = LogBuilder(root / "logs", "t-0")
    log.segment(0).batch(0, [(key, "v") for key in keys])
    log.write()
    (root / "logs/.kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    return root / "logs"


def segment(root: Path, key: bytes) -> bytes:
    log = LogBuilder(root / "of", "t-0")
    log.segment(7).batch(7, [(key.decode(), "v"), ("b", "v")])
    log.write()
    content = (root / "of/t-0" / f"{N}.log").read_bytes()
    shutil.rmtree(root / "of")
    return content


def certified(place: Place) -> Certificate:
    """What is said of the person."""

    def find(there: Place):  # noqa: ANN202 -- of the call
        config = settings({"cleanup.policy": "compact"})
        return search_log_dir(there, KEYS, config, progress=lambda *_: None)

    searched = search(place, find, requests=1, sources=None, report=lambda *_: None)
    return make_certificate(
        [Requested(hmac="aa" * 32, topics="regex:.*")],
        [searched],
        Issue(at_ms=START_MS, issuer="", signing_key_sha256="0" * 64, versions=VERSIONS),
    )


def state(place: Place) -> str:
    return certified(place).requests[0].state


def hides(hidden: Hidden, place: Callable[[], Place], plant: Callable[[bytes], None]) -> None:
    """With the person it is never absent; a sound twin is an obstacle only if it is documented."""
    made = certified(place())
    assert "not found" == made.requests[0].state, made.not_read
    for key in (PERSON, b"nobody"):
        plant(key)
        made = certified(place())
        is_absent = made.requests[0].state in ABSENT
        assert is_absent == (key != PERSON and "searched" == hidden.become), made


@pytest.mark.parametrize("hidden", IN_A_DIRECTORY, ids=lambda one: one.kind)
def test_in_a_log_directory(tmp_path: Path, hidden: Hidden) -> None:
    logs = built(tmp_path, "a")

    def plant(key: bytes) -> None:
        (logs / hidden.path).unlink(missing_ok=True)
        hidden.plant(logs / hidden.path, segment(tmp_path, key))

    hides(hidden, lambda: logs, plant)


@pytest.mark.parametrize("hidden", IN_A_BUCKET, ids=lambda one: one.kind)
def test_in_a_bucket(tmp_path: Path, agreement: bytes, hidden: Hidden) -> None:
    root = tmp_path / "buckets" / "b"
    put(built(tmp_path, "a"), Bucket.of(f"file://{root}"), agreement)

    def plant(key: bytes) -> None:
        (root / hidden.path).unlink(missing_ok=True)
        hidden.plant(root / hidden.path, segment(tmp_path, key))

    hides(hidden, lambda: place_of(f"file://{root}"), plant)


def put_object(port: int, prefix: str, key: str, content: bytes) -> None:
    """Write an object with any name; the server does not ask who does."""
    url = f"http://127.0.0.1:{port}/{NAME}/{prefix}/{quote(key, safe='/')}"
    headers = {"Content-Type": "application/octet-stream", "Authorization": "AWS testkey:x"}
    with urlopen(Request(url, content, headers, method="PUT"), timeout=60) as answer:
        assert 200 == answer.status


@pytest.fixture(name="prefix")
def _prefix(tmp_path: Path, agreement: bytes, port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a bucket with one log."""
    for name, value in environment(port).items():
        monkeypatch.setenv(name, value)
    prefix = secrets.token_hex(8)
    put(built(tmp_path, "a"), Bucket.of(f"s3://{NAME}/{prefix}"), agreement)
    return prefix


@pytest.mark.parametrize("hidden", ON_A_SERVER, ids=lambda one: one.kind)
def test_on_a_server(tmp_path: Path, port: int, prefix: str, hidden: Hidden) -> None:
    def plant(key: bytes) -> None:
        put_object(port, prefix, hidden.path, segment(tmp_path, key))

    hides(hidden, lambda: place_of(f"s3://{NAME}/{prefix}"), plant)


def test_a_refused_name_does_not_stop_the_rest(tmp_path: Path, port: int, prefix: str) -> None:
    """What is next to it is searched, and found."""
    for key in ("/x", "a//x", "a/../x"):
        put_object(port, prefix, key, b"?")
    put_object(port, prefix, "backup/0.log", segment(tmp_path, PERSON))
    made = certified(place_of(f"s3://{NAME}/{prefix}"))
    assert ["backup/0.log"] == [one.path.text for one in made.remains]
    assert [""] == [one.path.text for one in made.not_read]
    looked = {one.path.text: one.looked for one in made.manifest}
    assert "searched" == looked["t-0/00000000000000000000.log"]


def test_the_document_has_each_kind() -> None:
    _, _, section = DOCUMENT.read_text().partition("## Log directories and buckets\n")
    section = section.partition("\n## ")[0]
    rows = [line.split("|")[1:4] for line in section.splitlines() if line.startswith("| ")]
    documented = [(kind.strip(), become.strip()) for kind, _, become in rows[1:]]
    assert sorted((one.kind, one.become) for one in EVERY) == sorted(
        row for row in documented if not row[0].startswith("---") and row[0] != "kind"
    )
    assert len({one.kind for one in EVERY}) == len(EVERY) >= 50


PARTS = ("t-0", "t-1", "data", "manifest", "state", "x", f"{N}.log", "format.json", "a b", "")
NAMES = (*PARTS[:-1], "upload-0-0-0.log", f"{0:020d}", "x#1", ".logwright", "t-0 (object)")


def test_each_object_has_a_place_in_the_account(
    tmp_path: Path, agreement: bytes, seed: int
) -> None:
    """Random contents: the keys of the account are those of the bucket, and each is searched,
    shown, counted or named.
    """
    logs, chosen = built(tmp_path, "a"), random.Random(seed)
    for number in range(15):
        root = tmp_path / f"b{number}"
        bucket = Bucket.of(f"file://{root}")
        put(logs, bucket, agreement)
        for _ in range(chosen.randrange(12)):
            key = "/".join(
                part
                for part in (*chosen.choices(PARTS, k=chosen.randrange(4)), chosen.choice(NAMES))
                if part
            )
            path = root / key
            blocked = [above for above in path.parents if above.is_file()]
            if not (blocked or path.exists()):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(chosen.choice((b"", b"?", segment(tmp_path, b"c"))))
        keys = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
        contents = contents_of(bucket)
        assert keys == contents.classes.keys()
        files = {stored.key for stored in contents.files.values()}
        of_class = {
            name: {key for key, value in contents.classes.items() if value == name}
            for name in ("shown", "other version", "file", "unread")
        }
        assert files == of_class["file"]
        assert len(files) == len(contents.files)
        assert of_class["unread"] == contents.unread.keys()
        counted = {key.partition("/")[0] for key in of_class["other version"]}
        assert counted == contents.others.keys()
        looked = {one.path.text for one in certified(place_of(bucket.url)).manifest}
        assert contents.files.keys() <= looked


def test_what_appears_meanwhile_is_named(
    tmp_path: Path, agreement: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another list in the end shows it; an empty object holds nothing."""
    root = tmp_path / "buckets" / "b"
    put(built(tmp_path, "a"), Bucket.of(f"file://{root}"), agreement)
    place = place_of(f"file://{root}")
    later = iter([("late", b"?"), ("t-0/data/late", b"?"), ("t-0/clock/0", b"")])

    def report(*_: object) -> None:
        for key, content in later:
            Bucket.of(f"file://{root}").put_unique(key, content)

    config = settings({"cleanup.policy": "compact"})
    result = search_log_dir(place, KEYS, config, progress=report)
    assert {"late", "t-0"} == {each.path for each in result.unsearched}
    problems = [each.problem for each in result.unsearched]
    assert all("meanwhile" in each or "while the rest" in each for each in problems)
