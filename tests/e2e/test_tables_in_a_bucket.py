"""Tables of the latest state in a bucket, by the command line and by Dagster."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.bucket.store import Bucket
from tests.bucket.servers import NAME, environment, in_a_process
from tests.e2e.command import call
from tests.e2e.harness import MARKS
from tests.e2e.tables import metadata_of, platform_with, results, update
from tests.log_builder import LogBuilder
from tests.table_rows import expected_rows, table_rows

pytestmark = MARKS


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of an S3 server."""
    with in_a_process() as server:
        yield server


@pytest.fixture
def url(port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a prefix that nothing else has."""
    for name, value in environment(port).items():
        monkeypatch.setenv(name, value)
    return f"s3://{NAME}/{secrets.token_hex(8)}/t"


def log_of(tmp_path: Path, topic: str = "t") -> Path:
    """A log directory with one topic."""
    log = LogBuilder(tmp_path / "logs", f"{topic}-0")
    log.segment(0).batch(0, [("ada", "1"), ("bob", "2"), ("ada", "3"), ("eve", None)])
    log.write()
    return tmp_path / "logs"


@pytest.mark.parametrize("unique", ["partition", "topic"])
def test_an_asset(tmp_path: Path, url: str, unique: str) -> None:
    """Made with all checks; a second run finds nothing new."""
    more = f", unique: {unique}, preview: true"
    platform = platform_with(tmp_path, "delta", url, {"t-0": "basic-none"}, more)
    done = update(platform)
    made = metadata_of(done)
    expected = expected_rows(platform.log_dir, "t")
    assert expected == table_rows("delta", url)  # type: ignore[arg-type]  # a text will do
    assert (len(expected), url) == (made["dagster/row_count"], made["path"])
    assert "testsecret" not in str(made)
    checks = results(done)
    assert checks["rows_equal_live_keys"]
    assert checks["held_below_last_stable_offset"]
    assert not metadata_of(update(platform))["new version"]


@pytest.mark.parametrize("uploaded", [False, True])
def test_the_command(tmp_path: Path, url: str, *, uploaded: bool) -> None:
    """It makes the table, of a log here or in a bucket, and a search finds its rows."""
    log_dir = log_of(tmp_path, "customers")
    place = f"{url}-logs" if uploaded else log_dir
    if uploaded:
        assert 0 == call("upload", log_dir, "--to", place).status
    made = call("latest", place, "customers", "--to", url, "--output", "json")
    assert 0 == made.status, made.err
    assert [2] == [json.loads(line)["rows"] for line in made.out.splitlines()][:1]
    assert expected_rows(log_dir, "customers") == table_rows("delta", url)  # type: ignore[arg-type]
    keys = tmp_path / "keys"
    keys.write_text("ada\n")
    answer = call("find", log_dir, "--keys", keys, "--table", url, "--output", "json")
    assert f"{url}" in answer.out + answer.err
    assert "partition=0/bucket=0/" in answer.out


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--format", "parquet"], "--format delta"),
        (["--format", "iceberg"], "a table with a `catalog`"),
        (["--columns", "key,value"], "leave out --columns"),
    ],
)
def test_refused(tmp_path: Path, url: str, more: list[str], sentence: str) -> None:
    """With the reason, and a way out."""
    done = call("latest", log_of(tmp_path), "t", "--to", url, *more)
    assert 0 != done.status
    assert sentence in done.err
    assert not Bucket.of(url).listing("")


def test_erased(tmp_path: Path, url: str) -> None:
    """What the table still has is said until its next update; so is a table that is not there."""
    policies = tmp_path / "policies"
    policies.mkdir()
    topic = f"  - name: t\n    table: {{format: delta, path: {url}}}\n"
    (policies / "topics.yml").write_text(f"version: 1\ntopics:\n{topic}")
    log_dir = log_of(tmp_path)
    assert 0 == call("latest", log_dir, "t", "--to", url).status
    keys = tmp_path / "keys"
    keys.write_text("ada\n")
    words = (
        "erase",
        log_dir,
        "--keys",
        keys,
        "--now-and-for-good",
        "--yes",
        "--policies",
        policies,
    )
    left = call(*words)
    assert 0 != left.status
    assert url in left.out + left.err
    assert 0 == call("latest", log_dir, "t", "--to", url).status
    gone = call(*words)
    assert url not in gone.out + gone.err, gone.out + gone.err
    for each in Bucket.of(url).listing(""):
        Bucket.of(url).delete(each.key)
    assert url in (lost := call(*words)).out + lost.err
    assert 0 != lost.status
