"""A bucket: what it is asked, what its errors say, and what of it is never shown."""

from __future__ import annotations

import errno
import json
import pickle
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logwright.bucket.agreement import AGREEMENT, LONGEST_REQUEST_MS, USUAL, agree, agreed
from logwright.bucket.probe import UnsafeBucket, probe
from logwright.bucket.store import Bucket
from logwright.errors import CorruptLogError, LogwrightError, NotALogDir
from tests.bucket.proxy import proxied
from tests.bucket.servers import NAME, Application, environment, served

KEYS = ("testkey", "testsecret")
"""What `environment` has, as parts of what must not be shown."""


@pytest.fixture(scope="module", name="port")
def _port() -> Iterator[int]:
    with served() as port:
        yield port


@pytest.fixture(name="bucket", params=["file", "s3"])
def _bucket(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bucket:
    """One of a file system, and one of S3."""
    if request.param == "file":
        return Bucket.of(f"file://{tmp_path}/bucket")
    use(monkeypatch, request.getfixturevalue("port"))
    return Bucket.of(f"s3://{NAME}/{tmp_path.name}")


def use(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    for name, value in environment(port).items():
        monkeypatch.setenv(name, value)


def test_objects(bucket: Bucket) -> None:
    """Written, listed, read in parts and removed."""
    assert [] == bucket.directories()
    assert [] == list(bucket.listing("a/"))
    bucket.put_unique("a/1", b"0123456789")
    bucket.put_unique("a/2", iter([b"x" * (6 << 20), b"y" * (6 << 20), b"z"]))
    bucket.put_unique("ab/3", b"")
    assert ["a", "ab"] == bucket.directories()
    sizes = {each.key: each.bytes for each in bucket.listing("a/")}
    assert {"a/1": 10, "a/2": (12 << 20) + 1} == sizes
    assert ["a/2"] == [each.key for each in bucket.listing("a/", "a/1")]
    age_ms = time.time() * 1000 - next(iter(bucket.listing("a/"))).modified_ms
    assert abs(age_ms) < 60_000
    part = np.frombuffer(bucket.read("a/1", 2, 5), dtype=np.uint8)
    assert (b"234", False) == (part.tobytes(), part.flags.writeable)
    assert b"yz" == bytes(bucket.read("a/2", (12 << 20) - 1, (12 << 20) + 1))
    assert b"0123456789" == bucket.content("a/1", 10)
    bucket.delete("a/1")
    bucket.delete("a/1")
    assert {"a/2"} == {each.key for each in bucket.listing("a/")}


def test_a_create_does_not_replace(bucket: Bucket) -> None:
    """And says yes once."""
    assert [True, False] == [bucket.create("m", content) for content in (b"1", b"2")]
    assert b"1" == bucket.content("m", 1)


def test_what_is_wrong_is_said(bucket: Bucket) -> None:
    """By the name of the object."""
    with pytest.raises(FileNotFoundError, match="x/y is not there"):
        bucket.read("x/y", 0, 1)
    bucket.put_unique("x/y", b"123")
    with pytest.raises(OSError, match="x/y has fewer bytes than its manifest says"):
        bucket.read("x/y", 1, 5)
    with pytest.raises(OSError, match="x/y has 3 bytes, more than 2") as caught:
        bucket.content("x/y", 2)
    assert errno.EFBIG == caught.value.errno


def test_the_clock_is_the_servers(bucket: Bucket) -> None:
    """And leaves nothing."""
    before = time.time() * 1000
    assert before - 2000 <= bucket.clock_ms("clock/1") <= time.time() * 1000 + 2000
    assert [] == list(bucket.listing("clock/"))


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not in a pickle, a name or an error, also when nobody answers."""
    with served() as port:
        use(monkeypatch, port)
        bucket = Bucket.of(f"s3://{NAME}/{tmp_path.name}")
        bucket.put_unique("x", b"1")
    shown = [repr(bucket), str(bucket), repr(pickle.dumps(bucket))]
    assert not bucket.create("y", b"2")
    with pytest.raises(OSError, match="no answer for s3://") as caught:
        bucket.clock_ms("z")
    shown += [str(caught.value), repr(caught.value.__cause__)]
    assert [] == [text for text in shown for key in KEYS if key in text]


def no_condition(application: Application) -> Application:
    """A server that does not know If-None-Match."""

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:  # noqa: ANN401 -- of WSGI
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return application(environ, start)

    return answer


def looks_first(application: Application) -> Application:
    """A server that looks, and later writes: one create after another is right, a race is not."""
    known: set[str] = set()

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:  # noqa: ANN401 -- of WSGI
        if environ.pop("HTTP_IF_NONE_MATCH", None):
            path = environ["PATH_INFO"]
            if path in known:
                start("412 Precondition Failed", [("Content-Length", "0")])
                return [b""]
            time.sleep(0.02)
            known.add(path)
        return application(environ, start)

    return answer


@pytest.mark.parametrize("wrap", [no_condition, looks_first])
def test_a_server_without_a_winner_is_refused(
    wrap: Any,  # noqa: ANN401 -- one of the two
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By name, before anything is written there."""
    with served(wrap) as port:
        use(monkeypatch, port)
        bucket = Bucket.of(f"s3://{NAME}/{wrap.__name__}")
        with pytest.raises(UnsafeBucket, match=r"of 8 creates of one object at once \d succeeded"):
            agree(bucket)
        assert [] == list(bucket.listing(""))


def test_a_probe_through_faults(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A race whose winner's answer was lost is run again."""
    with proxied(port, rate=0.05, seed=1) as proxy:
        use(monkeypatch, proxy.port)
        probe(Bucket.of(f"s3://{NAME}/faults"))
    assert proxy.faults


def test_a_bucket_that_is_not_there_is_named(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and how to get on; not as one that does not answer."""
    use(monkeypatch, port)
    with pytest.raises(NotALogDir, match=r"there is no such bucket\. Make the bucket"):
        agree(Bucket.of("s3://no-such-bucket/archive"))


def test_writers_agree(tmp_path: Path) -> None:
    """The first one decides, and the others take what it decided."""
    bucket = Bucket.of(f"file://{tmp_path}/bucket")
    assert agreed(bucket) is None
    assert USUAL == agree(bucket)
    assert [AGREEMENT] == [each.key for each in bucket.listing("")]
    assert USUAL == agree(bucket) == agreed(bucket)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"format":1,"deadlineMs":9,"ageMs":9,"keptVersions":1,"raced":20}']
)
def test_a_damaged_agreement_is_refused(content: bytes, tmp_path: Path) -> None:
    """Also one whose age would let data be removed that a writer is about to name."""
    bucket = Bucket.of(f"file://{tmp_path}/bucket")
    bucket.put_unique(AGREEMENT, content)
    with pytest.raises(CorruptLogError, match="Nobody may write before"):
        agree(bucket)


@pytest.mark.parametrize(("more_ms", "is_agreed"), [(0, False), (1, True)])
def test_the_age_exceeds_the_deadline_by_a_request(
    tmp_path: Path, more_ms: int, *, is_agreed: bool
) -> None:
    """A request that was sent before the deadline may still arrive after it."""
    bucket = Bucket.of(f"file://{tmp_path}/bucket")
    age_ms = 9 + LONGEST_REQUEST_MS + more_ms
    content = {"format": 1, "deadlineMs": 9, "ageMs": age_ms, "keptVersions": 1, "raced": 20}
    bucket.put_unique(AGREEMENT, json.dumps(content).encode())
    if is_agreed:
        assert age_ms == agree(bucket).age_ms
    else:
        with pytest.raises(CorruptLogError, match="Nobody may write before"):
            agree(bucket)


def test_a_bucket_that_does_not_answer_is_no_agreement(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is taken for absent that was not seen."""
    monkeypatch.setattr("logwright.bucket.store._RETRIES", 0)
    with proxied(port, rate=1, seed=3) as proxy:
        use(monkeypatch, proxy.port)
        with pytest.raises(LogwrightError):
            agree(Bucket.of(f"s3://{NAME}/silent"))
