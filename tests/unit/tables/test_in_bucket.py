"""Tables of Delta in a bucket, on an S3 server."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from logwright.bucket.store import Bucket
from logwright.config.table import TopicTable
from logwright.erasure.find.tables import search_table_files
from logwright.erasure.keys import KeySet
from logwright.errors import LogwrightError, StepFailed, UnreadableFile
from logwright.tables.delta import DeltaStore
from logwright.tables.files import BucketFiles, files_at
from logwright.tables.merge import MergeLimits
from logwright.tables.topic import LocatedTable
from tests.bucket.faulty import KINDS, fault
from tests.bucket.minio import minio
from tests.bucket.servers import NAME, environment, in_a_process
from tests.found import SECRET
from tests.table_deaths import Died, counted
from tests.table_rows import Rows, expected_rows, table_rows
from tests.table_schemas import ID, LEVEL, Schemas, record
from tests.table_world import catalog_place, place, random_pairs, update, write_logs
from tests.two_writers import rows_of as rows_in_iceberg

MARKS = MergeLimits(small_bytes=0, files=8, deleted_share=0.9)
"""Rows are deleted by deletion vectors."""
OTHER = "another process has changed the table"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server."""
    with in_a_process("faulty") as server:
        yield server


@pytest.fixture
def url(port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a prefix that nothing else has."""
    for name, value in environment(port).items():
        monkeypatch.setenv(name, value)
    fault(port)
    return f"s3://{NAME}/{secrets.token_hex(8)}/t"


def marked(url: str, **settings: object) -> LocatedTable:
    """A table that deletes rows of files, also of small ones."""
    return replace(place("delta", url, buckets=2, **settings), limits=MARKS)


def small_changes(
    tmp_path: Path, draw: random.Random, sizes: tuple[int, ...] = (100, 120, 140)
) -> list[Path]:
    """The same two partitions at some times: many keys, then changes of few of them."""
    whole = {
        number: [(f"k{at}", f"v{at}") for at in range(100)] + random_pairs(draw, sizes[-1] - 100)
        for number in range(2)
    }
    return [
        write_logs(tmp_path / f"logs-{size}", {each: pairs[:size] for each, pairs in whole.items()})
        for size in sizes
    ]


def copied(url: str) -> str:
    """A copy of a table."""
    other = f"s3://{NAME}/{secrets.token_hex(8)}/t"
    for each in Bucket.of(url).listing(""):
        Bucket.of(other).put_unique(each.key, Bucket.of(url).content(each.key, 1 << 24))
    return other


def versions(url: str) -> int:
    """The number of the newest version."""
    return DeltaTable(url).version()


@pytest.mark.parametrize("unique", ["partition", "topic"])
def test_the_same_as_in_a_directory(tmp_path: Path, url: str, seed: int, unique: str) -> None:
    """Each update gives the same rows, steps and counts."""
    here = marked(str(tmp_path / "t"), unique=unique)
    there = marked(url, unique=unique)
    vectors = 0
    for log_dir in small_changes(tmp_path, random.Random(seed)):
        done = [update(where, log_dir) for where in (here, there)]
        assert done[0].result.partitions == done[1].result.partitions
        assert table_rows("delta", tmp_path / "t") == table_rows("delta", url)  # type: ignore[arg-type]
        snapshot = done[1].result.snapshot
        assert snapshot is not None
        vectors += sum(snapshot.deleted.values())
    if unique == "partition":
        assert expected_rows(log_dir, "t") == rows_of(url)
    assert vectors
    assert not update(there, log_dir).result.changed


def rows_of(url: str) -> Rows:
    """The rows by the query engine of `deltalake`, which knows deletion vectors."""
    return table_rows("delta", url)  # type: ignore[arg-type]  # a text will do


class Campaign(NamedTuple):
    """An update of which each request may go wrong.

    Attributes:
        port: of the server.
        settings: of the table.
        logs: the table was made of the first two; it is updated to the third, then to the fourth.
        objects: what is there before, by name: the table, and what is next to it.
        rows: before, after the update, and after the next one; if nothing goes wrong.
        version: before.
        count: of requests of the update.
    """

    port: int
    settings: Mapping[str, object]
    logs: list[Path]
    objects: dict[str, bytes]
    rows: tuple[Rows, Rows, Rows]
    version: int
    count: int

    def update(self, url: str, number: int) -> None:
        """Update a table to one of the logs."""
        update(marked(url, **self.settings), self.logs[number])

    def copied(self) -> str:
        """A table as it is before."""
        above = f"s3://{NAME}/{secrets.token_hex(8)}"
        for key, content in self.objects.items():
            Bucket(above).put_unique(key, content)
        return f"{above}/t"


UPDATES: dict[str, dict[str, object]] = {
    "rows": {},
    "removal": {"unique": "topic", "keep_versions_ms": 0},
}
"""One adds files and deletion vectors. One has hidden heads, too, and removes what is old."""


def objects_of(url: str) -> dict[str, bytes]:
    """All objects of a table, and of what is next to it."""
    bucket = Bucket(url.rpartition("/")[0])
    return {each.key: bucket.content(each.key, 1 << 24) for each in bucket.listing("")}


def state_of(url: str) -> tuple[Rows, int]:
    """The rows and the version of a table, read from a copy: that takes fewer requests."""
    with TemporaryDirectory() as directory:
        for key, content in objects_of(url).items():
            path = Path(directory) / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        table = Path(directory) / "t"
        return table_rows("delta", table), DeltaTable(table).version()


def campaign_of(port: int, url: str, tmp_path: Path, draw: random.Random, what: str) -> Campaign:
    """A table of the first logs, and what its updates do if nothing goes wrong."""
    logs = small_changes(tmp_path, draw, (100, 120, 140, 150))
    objects: dict[str, bytes] = {}
    rows: list[Rows] = []
    counts, versions = [], []
    for number, log_dir in enumerate(logs):
        fault(port)
        update(marked(url, **UPDATES[what]), log_dir)
        counts.append(fault(port))
        if number == 1:
            objects = objects_of(url)
        state = state_of(url)
        rows.append(state[0])
        versions.append(state[1])
        if what == "rows":
            assert expected_rows(log_dir, "t") == rows[-1]
    settled = (rows[1], rows[2], rows[3])
    return Campaign(port, UPDATES[what], logs, objects, settled, versions[1], counts[2])


def check_fault(campaign: Campaign, kind: str, at: int) -> str:
    """One request of an update goes wrong: the table is as it was, or as it is afterwards, and the
    next update is right. Returns how the update ended.
    """
    url = campaign.copied()
    fault(campaign.port, kind, at)
    outcome, message = "done", ""
    try:
        campaign.update(url, 2)
    except LogwrightError as error:
        outcome, message = type(error).__name__, str(error)
    assert fault(campaign.port) >= at, (kind, at)
    assert "testsecret" not in message
    before, after, later = campaign.rows
    rows, version = state_of(url)
    assert rows in ([after] if outcome == "done" else [before, after]), (kind, at, outcome)
    assert version - campaign.version == (rows == after), (kind, at, outcome)
    campaign.update(url, 3)
    rows, next_version = state_of(url)
    assert later == rows, (kind, at, outcome)
    assert version + 1 == next_version, (kind, at, outcome)
    bucket = Bucket(url.rpartition("/")[0])
    for each in bucket.listing(""):  # the server looks at all names for each listing
        bucket.delete(each.key)
    return outcome


@pytest.mark.rotates(2)
@pytest.mark.parametrize("what", UPDATES)
def test_any_request_may_go_wrong(
    tmp_path: Path, port: int, url: str, seed: int, what: str
) -> None:
    """Some of them, each in another way."""
    draw = random.Random(seed)
    campaign = campaign_of(port, url, tmp_path, draw, what)
    assert campaign.count > 20
    for kind in draw.sample(KINDS, 3):
        check_fault(campaign, kind, draw.randint(1, campaign.count))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", UPDATES)
def test_every_request_may_go_wrong(
    tmp_path: Path, port: int, url: str, seed: int, *, kind: str, what: str
) -> None:
    """All of them, in each way."""
    campaign = campaign_of(port, url, tmp_path, random.Random(seed), what)
    for at in range(1, campaign.count + 1):
        check_fault(campaign, kind, at)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("part", range(4))
def test_died_at_every_write(
    tmp_path: Path, url: str, seed: int, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed update leaves the table old or new, and the next one is right."""
    logs = small_changes(tmp_path, random.Random(seed))
    update(marked(url), logs[0])
    old, new = expected_rows(logs[0], "t"), expected_rows(logs[1], "t")
    died = 0
    for at in range(1 + part, 100, 4):
        trial = copied(url)
        with counted(monkeypatch) as effects:
            effects.dies_at = at
            try:
                update(marked(trial), logs[1])
            except Died:
                died += 1
            else:
                break
        assert rows_of(trial) in (old, new)
        update(marked(trial), logs[1])
        assert new == rows_of(trial)
    assert died > 2


@pytest.mark.parametrize("first", [True, False])
def test_two_at_once(
    tmp_path: Path, url: str, seed: int, monkeypatch: pytest.MonkeyPatch, *, first: bool
) -> None:
    """One wins, the other is named, and nothing is lost."""
    check_two(tmp_path, url, seed, monkeypatch, first=first)


def check_two(
    tmp_path: Path, url: str, seed: int, monkeypatch: pytest.MonkeyPatch, *, first: bool
) -> None:
    """An update that another one overtakes before its commit."""
    logs = small_changes(tmp_path, random.Random(seed))
    if not first:
        update(marked(url), logs[0])
    commit = DeltaStore.commit

    def overtaken(store: DeltaStore, *arguments: object) -> None:
        monkeypatch.setattr(DeltaStore, "commit", commit)
        update(marked(url), logs[1])
        commit(store, *arguments)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(DeltaStore, "commit", overtaken)
    with pytest.raises(StepFailed, match=OTHER):
        update(marked(url), logs[2])
    assert expected_rows(logs[1], "t") == rows_of(url)
    before = versions(url)
    update(marked(url), logs[2])
    assert expected_rows(logs[2], "t") == rows_of(url)
    assert before + 1 == versions(url)


def test_what_nobody_named_stays(tmp_path: Path, url: str, seed: int) -> None:
    """It may be of a writer that is about to commit. What a version named goes at once."""
    logs = small_changes(tmp_path, random.Random(seed))
    where = marked(url, keep_versions_ms=0)
    update(where, logs[0])
    before = {each.path for each in files_at(url).listing() if each.path.endswith(".parquet")}
    Bucket.of(url).put_unique("partition=0/bucket=0/of-a-writer.parquet", b"x")
    update(where, logs[1])
    after = {each.path for each in files_at(url).listing()}
    assert "partition=0/bucket=0/of-a-writer.parquet" in after
    assert before - after


def test_old_files_that_nobody_named_go(
    tmp_path: Path, url: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the server's clock."""
    logs = small_changes(tmp_path, random.Random(seed))
    update(marked(url, keep_versions_ms=0), logs[0])
    stray = "partition=0/bucket=0/of-a-writer.parquet"
    Bucket.of(url).put_unique(stray, b"x")
    now_ms = BucketFiles.now_ms
    monkeypatch.setattr(BucketFiles, "now_ms", lambda self: now_ms(self) + 604_801_000)
    update(marked(url, keep_versions_ms=0), logs[1])
    assert stray not in {each.path for each in files_at(url).listing()}
    assert expected_rows(logs[1], "t") == rows_of(url)


@pytest.mark.parametrize("cut", [True, False])
def test_a_lost_object(tmp_path: Path, url: str, seed: int, *, cut: bool) -> None:
    """The rows are in doubt, and made again."""
    logs = small_changes(tmp_path, random.Random(seed))
    update(marked(url), logs[0])
    bucket = Bucket.of(url)
    lost = next(each for each in bucket.listing("partition=0/"))
    content = bucket.content(lost.key, 1 << 24)
    bucket.delete(lost.key)
    if cut:
        bucket.put_unique(lost.key, content[:-1])
    done = update(marked(url), logs[0])
    assert "rebuild" in {each.step.kind for each in done.result.partitions}
    assert expected_rows(logs[0], "t") == rows_of(url)


def test_a_search(tmp_path: Path, url: str) -> None:
    """It sees all objects, those of earlier versions and of hidden heads too."""
    log_dir = write_logs(tmp_path / "logs", {0: [("ada", "1"), ("bob", "2")], 1: [("ada", None)]})
    update(marked(url, unique="topic"), log_dir)
    for key, kind in ((b"ada", True), (b"bob", True), (b"eve", False)):
        result = search_table_files(url, keys_of(key), topic="t")
        assert kind == bool(result.findings), key
        assert not result.unsearched
    assert result.files == len([*files_at(url).listing(), *hidden_of(url)])


def keys_of(key: bytes) -> KeySet:
    """One requested key."""
    return KeySet.of(SECRET, clear=[key])


def hidden_of(url: str) -> list[str]:
    """The files with hidden heads."""
    return [each.path for each in files_at(url).next_to(".t.logwright-keys").listing()]


def test_a_search_of_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not there, or does not answer, was not searched."""
    with pytest.raises(UnreadableFile, match="nothing of this name"):
        search_table_files(url, keys_of(b"ada"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setattr(Bucket, "listing", lambda *_: (_ for _ in ()).throw(PermissionError()))
    with pytest.raises(UnreadableFile):
        search_table_files(url, keys_of(b"ada"))


@pytest.mark.rotates(2)
@pytest.mark.parametrize("has_path", [True, False])
def test_iceberg_by_a_catalog(tmp_path: Path, url: str, seed: int, *, has_path: bool) -> None:
    """Its files are in the bucket; a lost one puts the rows in doubt."""
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"{url}-wh"}
    where = catalog_place(catalog, tmp_path, buckets=2, **({"path": url} if has_path else {}))
    for log_dir in small_changes(tmp_path, random.Random(seed)):
        done = update(where, log_dir)
    s3 = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"}
    opened = load_catalog("logwright", **catalog, **s3).load_table("latest_state.t")
    location = url if has_path else f"{url}-wh/latest_state/t"
    assert location == opened.location()
    assert expected_rows(log_dir, "t") == rows_in_iceberg(opened)
    assert done.result.snapshot is not None
    lost = done.result.snapshot.files[0].path
    Bucket.of(location).delete(lost.removeprefix(f"{location}/"))
    again = update(where, log_dir)
    assert "rebuild" in {each.step.kind for each in again.result.partitions}
    assert expected_rows(log_dir, "t") == rows_in_iceberg(opened.refresh())


@pytest.mark.nightly
def test_real_server(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """MinIO: the same rows, and the later of two is refused."""
    with minio(tmp_path / "minio") as port:
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        url = f"s3://{NAME}/{secrets.token_hex(8)}/t"
        check_two(tmp_path, url, seed, monkeypatch, first=False)


@contextmanager
def refused(match: str) -> Iterator[None]:
    """A table that the policies refuse."""
    with pytest.raises(ValueError, match=match) as raised:
        yield
    assert "secret" not in str(raised.value.errors(include_input=False))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"format": "parquet", "path": "s3://lake/t"}, "parquet is not for it"),
        ({"format": "iceberg", "path": "s3://lake/t"}, "give a catalog"),
        ({"format": "delta", "path": "s3://lake"}, "s3://BUCKET/PATH"),
        ({"format": "delta", "path": "s3://me:secret@lake/t"}, "taken from the environment"),
    ],
)
def test_what_cannot_be_in_a_bucket(given: dict[str, object], match: str) -> None:
    """It is said, without the URL."""
    with refused(match):
        TopicTable.model_validate(given)


def test_columns_grow_in_a_bucket(tmp_path: Path, url: str) -> None:
    """One commit, as in a directory; the version before has the earlier columns."""
    schemas = Schemas(tmp_path)
    schemas.add(1, record(ID))
    schemas.add(2, record(ID, LEVEL))
    first = [("a", schemas.value(1, id=1))]
    value = {"format": "registry", "schemas": str(tmp_path / "schemas")}
    where = place("delta", url, value=value, buckets=1)
    update(where, schemas.logs("logs-1", first))
    earlier = versions(url)
    more = [*first, ("b", schemas.value(2, id=2, level="x"))]
    update(where, schemas.logs("logs-2", more))
    assert [(0, 0, 1, "basic"), (0, 1, 2, "x")] == table_rows(
        "delta",
        url,  # type: ignore[arg-type]  # a text will do
        ["id", "level"],
    )
    assert earlier + 1 == versions(url)
    before = DeltaTable(url, version=earlier).schema()
    assert "level" not in [field.name for field in before.fields]
