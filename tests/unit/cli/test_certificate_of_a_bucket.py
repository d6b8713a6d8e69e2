"""``logwright certificate --table s3://…``: what is signed of a table in a bucket."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from logwright.bucket.store import Bucket
from logwright.erasure.certificate.keys import load_public
from logwright.erasure.certificate.model import Certificate, not_seen_in
from logwright.erasure.certificate.signed import read_certificate
from tests.bucket.servers import (
    NAME,
    Application,
    environment,
    in_a_process,
    in_turn,
    make_bucket,
    put_marker,
    served,
)
from tests.e2e.command import Answer, call
from tests.log_builder import START_MS, LogBuilder
from tests.table_rows import read_table

NOW_MS = START_MS + 86_400_000
DEADLINE = ("--deadline", NOW_MS)
MOST = 1 << 24


@pytest.fixture(scope="module", name="port")
def _port() -> Iterator[int]:
    """Of an S3 server."""
    with in_a_process() as server:
        yield server


@pytest.fixture(name="url")
def _url(port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a prefix that nothing else has."""
    for name, value in environment(port).items():
        monkeypatch.setenv(name, value)
    return f"s3://{NAME}/{secrets.token_hex(8)}/t"


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """A log from which ann and bob were erased, as is on record; keys, secret and signing key."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("ann", "1"), ("bob", "2"), ("eve", "3")])
    log.segment(3)
    log.write()
    (tmp_path / "logs/.kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    (tmp_path / "keys").write_text("ann\nbob\n")
    (tmp_path / "secret").write_text("0123456789abcdef" * 4)
    (tmp_path / "secret").chmod(0o600)
    assert 0 == call("certificate", "--new-key", tmp_path / "key").status
    words = ("--keys", tmp_path / "keys", "--secret", tmp_path / "secret", "--now", NOW_MS)
    at_once = ("--now-and-for-good", "--yes", "--config", "cleanup.policy=compact")
    erased = call("erase", tmp_path / "logs", *words, *at_once)
    assert 0 == erased.status, erased.err
    return tmp_path


def certify(place: Path, *tables: str | Path, more: Iterable[object] = ()) -> Answer:
    return call(
        "certificate",
        place / "logs",
        *("--keys", place / "keys", "--secret", place / "secret"),
        *("--signing-key", place / "key", "--out", place / "c.json"),
        *("--now", NOW_MS, "--config", "cleanup.policy=compact"),
        *(word for table in tables for word in ("--table", table)),
        *more,
    )


def signed(place: Path) -> Certificate:
    return read_certificate(place / "c.json", load_public(place / "key.pub"))


def states(place: Path) -> list[str]:
    return [one.state for one in signed(place).requests]


def unread(place: Path) -> list[tuple[int, str]]:
    return [(one.directory, one.path.text) for one in signed(place).not_read]


def compared(place: Path, *log_dirs: object) -> Answer:
    words = ("--public-key", place / "key.pub", "--output", "json")
    return call("verify-certificate", place / "c.json", *log_dirs, *words)


def rows(*keys: str) -> pa.Table:
    return pa.table({"key": pa.array([key.encode() for key in keys], pa.binary())})


def parquet(*keys: str) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows(*keys), sink)
    return sink.getvalue().to_pybytes()


def contents(url: str) -> dict[str, bytes]:
    """Each object and its content."""
    bucket = Bucket(url)
    return {
        each.key: bucket.content(each.key, MOST) if each.bytes else b""
        for each in bucket.listing("")
    }


def test_only_time_travel_reads_it(place: Path, url: str) -> None:
    """Delta's log has removed the file that has the person, and it is there still."""
    write_deltalake(url, rows("ann", "zed"))
    (old,) = [key for key in contents(url) if key.endswith(".parquet")]
    write_deltalake(url, rows("zed"), mode="overwrite")
    assert [b"zed"] == read_table("delta", url)["key"].to_pylist()  # type: ignore[arg-type]  # a text will do
    answer = certify(place, url, more=DEADLINE)
    assert 6 == answer.status, answer.err
    assert ["missed", "gone"] == states(place)
    made = signed(place)
    assert (0, 1, old, "table") in [
        (hit.request, hit.directory, hit.path.text, hit.place) for hit in made.remains
    ]
    directory = made.directories[1]
    assert (url, True, None) == (directory.path, directory.objects, directory.cluster)
    assert [False, True] == [each.objects for each in made.directories]
    digests = {key: hashlib.sha256(content).hexdigest() for key, content in contents(url).items()}
    assert digests == {key: file.sha256 for key, file in made.files_of(1).items()}
    assert set(not_seen_in(url)) < set(made.not_seen)


def test_its_statistics_are_left(place: Path, url: str) -> None:
    """A vacuum removes the rows; what Delta's log says of the smallest key stays."""
    write_deltalake(url, pa.table({"key": ["ann", "zed"]}))
    write_deltalake(url, pa.table({"key": ["zed"]}), mode="overwrite")
    table = DeltaTable(url)
    assert table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert 1 == sum(key.endswith(".parquet") for key in contents(url))
    assert 6 == certify(place, url).status
    assert ["remains", "gone"] == states(place)
    assert {"_delta_log/00000000000000000000.json"} == {
        hit.path.text for hit in signed(place).remains
    }


def test_nobody_is_in_it(place: Path, port: int, url: str) -> None:
    """All of it was searched, and the two are gone; the same files are verified later. What other
    tools write for a directory is empty.
    """
    for marker in ("", "_delta_log/", "part=1/"):
        put_marker(port, f"{url}/{marker}")
    write_deltalake(url, rows("zed"))
    write_deltalake(url, rows("eve"), mode="append")
    answer = certify(place, url, more=DEADLINE)
    assert 0 == answer.status, answer.err
    assert ["gone", "gone"] == states(place)
    made = signed(place)
    assert () == made.not_read
    empty = {"_delta_log", "part=1"}
    assert {key: "no records" if key in empty else "searched" for key in contents(url)} == {
        key: file.looked for key, file in made.files_of(1).items()
    }
    same = compared(place, place / "logs", url)
    assert (0, len(made.files_of(1))) == (same.status, same.lines[-1]["same"])
    Bucket.of(url).put_unique("part.parquet", parquet("ann"))
    other = compared(place, place / "logs", url)
    assert (6, ["part.parquet"]) == (other.status, other.lines[-1]["added"])


def test_what_is_of_no_format(place: Path, url: str) -> None:
    """Nothing is gone while one object was not searched, and it is named."""
    write_deltalake(url, rows("zed"))
    Bucket.of(url).put_unique("notes/letter.txt", b"of somebody")
    answer = certify(place, url)
    assert 6 == answer.status
    assert ["not proved", "not proved"] == states(place)
    assert [(1, "notes/letter.txt")] == unread(place)
    assert "not searched: notes/letter.txt" in answer.err
    assert "notes/letter.txt" in signed(place).files_of(1)


def test_files_elsewhere(place: Path, url: str) -> None:
    """What a table refers to in another prefix was not searched."""
    elsewhere = f"{url}-other/part.parquet"
    write_deltalake(url, rows("zed"))
    action = f'{{"add":{{"path":"{elsewhere}","partitionValues":{{}},"size":1,"dataChange":true}}}}'
    Bucket.of(url).put_unique("_delta_log/00000000000000000001.json", action.encode())
    assert 6 == certify(place, url).status
    assert ["not proved", "not proved"] == states(place)
    assert f"{url}-other" in signed(place).not_read[0].why


def test_the_same_as_in_a_directory(place: Path, url: str) -> None:
    """The same files in a directory give the same account, but for its address; next to both are
    keys that a table of a whole topic keeps.
    """
    write_deltalake(url, rows("ann", "zed"))
    write_deltalake(url, rows("bob"), mode="append")
    bucket = Bucket.of(url)
    for key, content in {
        "notes.txt": b"of somebody",
        "partition=3/zeros": b"\0" * 100,
        "empty": b"",
        "partition=3/x.parquet": parquet("bob") + b"torn",
        "metadata": parquet("ann"),
    }.items():
        bucket.put_unique(key, content)
    above = url.rpartition("/")[0]
    Bucket(f"{above}/.t.logwright-keys").put_unique("heads.parquet", parquet("ann"))
    for source, target in ((url, "t"), (f"{above}/.t.logwright-keys", ".t.logwright-keys")):
        for key, content in contents(source).items():
            path = place / "tables" / target / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    local = place / "tables" / "t"
    answers, made = [], []
    for table in (url, local, f"file://{local}"):
        answers.append(certify(place, table))
        made.append(signed(place))
    assert [6] * 3 == [answer.status for answer in answers], answers[0].err
    assert made[1:] == [made[1]] * 2
    there, here = (each.model_dump() for each in made[:2])
    for name in ("requests", "remains", "not_read", "manifest"):
        assert here[name] == there[name]
    assert not set(not_seen_in(url)) & set(made[1].not_seen)
    assert "../.t.logwright-keys/heads.parquet" in {one.path.text for one in made[0].remains}
    assert 0 == compared(place, place / "logs", local).status


def test_the_documented_commands(place: Path, port: int, url: str) -> None:
    """With the names of the example; there is a bucket of this name, too."""
    assert url
    make_bucket(port, "lake")
    table, keys = "s3://lake/customers", place / "keys.txt"
    keys.write_text("ann\n")
    write_deltalake(table, rows("zed"))
    key, proof = place / "signing.pem", place / "certificate.json"
    assert 0 == call("certificate", "--new-key", key).status
    words = ("--keys", keys, "--table", table, "--signing-key", key, "--out", proof)
    made = call("certificate", place / "logs", *words)
    assert 0 == made.status, made.err
    words = (proof, "--public-key", f"{key}.pub", place / "logs", table)
    assert 0 == call("verify-certificate", *words).status
    assert {"keys.txt", "signing.pem", "certificate.json", "signing.pem.pub"} <= {
        path.name for path in place.iterdir()
    }


def test_with_logs_in_a_bucket(place: Path, url: str) -> None:
    """Of a log directory there its logs are compared, of a table its objects."""
    logs = f"{url}-logs"
    assert 0 == call("upload", place / "logs", "--to", logs).status
    write_deltalake(url, rows("zed"))
    words = ("--keys", place / "keys", "--secret", place / "secret", "--now", NOW_MS)
    keys = ("--signing-key", place / "key", "--out", place / "c.json")
    answer = call("certificate", logs, *words, *keys, "--table", url)
    assert 0 == answer.status, answer.err
    made = signed(place)
    assert set(not_seen_in(url)) < set(made.not_seen)
    assert [(logs, False), (url, True)] == [(each.path, each.objects) for each in made.directories]
    assert 0 == compared(place, logs, url).status
    assert 6 == compared(place, logs, logs).status


@pytest.mark.parametrize(
    ("given", "status", "problem"),
    [
        ("s3://nowhere-at-all/t", 5, "Look at the URL"),
        (f"s3://{NAME}/nothing/here", 5, "there is no directory of a table"),
        ("/nothing/here", 5, "there is no directory of a table"),
        ("s3://me:hidden@lake/t", 2, "not a URL of a bucket"),
        (f"s3://{NAME}/a/../t", 2, "not a URL of a bucket"),
        ("s3:lake/t", 2, "not a URL of a bucket"),
    ],
)
def test_what_is_refused(place: Path, url: str, given: str, status: int, problem: str) -> None:
    """With the reason; nothing is signed, and a credential is not repeated."""
    assert url
    answer = certify(place, given)
    assert status == answer.status, answer.err
    assert problem in answer.err
    assert "hidden" not in answer.out + answer.err
    assert not (place / "c.json").exists()


def without_right(application: Application) -> Application:
    """A server that does not permit to read one object, which is listed."""
    inner = in_turn(application)

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:  # noqa: ANN401 -- of WSGI
        if not environ["PATH_INFO"].endswith("/closed.parquet"):
            return inner(environ, start)
        if "PUT" == environ["REQUEST_METHOD"]:
            return inner(environ, start)
        content = b"<Error><Code>AccessDenied</Code></Error>"
        start("403 Forbidden", [("Content-Length", str(len(content)))])
        return [content]

    return answer


def test_an_object_that_may_not_be_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and nothing is signed, as of a file."""
    with served(without_right) as port:
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        url = f"s3://{NAME}/{secrets.token_hex(8)}/t"
        Bucket.of(url).put_unique("open.parquet", parquet("zed"))
        assert 0 == certify(place, url).status
        (place / "c.json").unlink()
        Bucket.of(url).put_unique("closed.parquet", parquet("ann"))
        answer = certify(place, url)
    assert 5 == answer.status, answer.err
    assert f"{url}/closed.parquet" in answer.err
    assert not (place / "c.json").exists()
