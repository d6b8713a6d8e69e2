"""The files below a prefix of a bucket, on an S3 server."""

from __future__ import annotations

import hashlib
import pickle
import secrets
from collections.abc import Iterator

import pytest

from logwright.bucket.store import Bucket
from logwright.erasure.certificate.manifest import hash_files, require_same
from logwright.errors import NotALogDir, StalePlan, UnreadableFile
from logwright.log.tree import list_tree
from logwright.place.files import entry_at, open_bytes, open_log_dir
from logwright.place.model import RANGE_BYTES
from logwright.place.objects import Listing, ObjectsPlace, objects_of
from tests.bucket.servers import NAME, environment, in_a_process, put_marker

LARGE = secrets.token_bytes(2 * RANGE_BYTES + 12_345)
CONTENTS = {
    "_delta_log/00000000000000000000.json": b"{}",
    "a": b"a file",
    "a/b": b"a file in a directory of the same name",
    "empty": b"",
    "partition=0/bucket=0/large": LARGE,
    "partition=0/x y": b"x",
}


@pytest.fixture(scope="module", name="port")
def _port() -> Iterator[int]:
    """Of an S3 server."""
    with in_a_process() as server:
        yield server


@pytest.fixture(name="bucket")
def _bucket(port: int, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A prefix with some objects."""
    for name, value in environment(port).items():
        monkeypatch.setenv(name, value)
    bucket = Bucket.of(f"s3://{NAME}/{secrets.token_hex(8)}/t")
    for key, content in CONTENTS.items():
        bucket.put_unique(key, content)
    Bucket(f"{bucket.url}-other").put_unique("x", b"of another")
    return bucket


@pytest.fixture(name="place")
def _place(bucket: Bucket) -> ObjectsPlace:
    return objects_of(bucket.url)


def test_listed_and_hashed(place: ObjectsPlace) -> None:
    """Each object is a file, and nothing else is there."""
    tree = list_tree(place)
    assert ({}, ()) == (tree.others, tree.hard_linked)
    expected = {
        key: (len(content), hashlib.sha256(content).hexdigest())
        for key, content in CONTENTS.items()
    }
    assert expected == hash_files(tree)
    require_same(tree)


@pytest.mark.parametrize("key", ["a", "a/b", "empty"])
@pytest.mark.parametrize("change", ["other", "longer", "gone", "added"])
def test_a_change_is_noticed(bucket: Bucket, place: ObjectsPlace, key: str, change: str) -> None:
    """In one object, or one more, or less."""
    tree = list_tree(place)
    hash_files(tree)
    other = bytes(len(CONTENTS[key])) + b"!" * (change == "longer" or key == "empty")
    if change == "added":
        bucket.put_unique(f"{key}-new", b"")
    else:
        bucket.delete(key)
        if change != "gone":
            bucket.put_unique(key, other)
    with pytest.raises(StalePlan, match="changed while it was searched"):
        require_same(tree)


def test_other_content_in_the_same_second(bucket: Bucket, place: ObjectsPlace) -> None:
    """Neither size nor time shows it: the server's times are whole seconds."""
    for number in range(50):
        bucket.put_unique("a", b"first %04d" % number)
        first = list_tree(place).files["a"]
        bucket.put_unique("a", b"other %04d" % number)
        other = list_tree(place).files["a"]
        assert first != other
        if (first.size, first.modified_ns) == (other.size, other.modified_ns):
            return
    pytest.fail("a second was never long enough")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "is gone"),
        (LARGE[:-1], "changed while it was searched"),
        (LARGE[:RANGE_BYTES], "changed while it was searched"),
        (b"", "changed while it was searched"),
    ],
)
def test_a_change_while_it_is_read(
    bucket: Bucket,
    place: ObjectsPlace,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
    problem: str,
) -> None:
    """A file that goes, or becomes shorter, after it was listed."""
    tree = list_tree(place)
    key = "partition=0/bucket=0/large"
    bucket.delete(key)
    if content is not None:
        bucket.put_unique(key, content)
    monkeypatch.setattr(Listing, "look", lambda _: None)
    with pytest.raises(StalePlan, match=problem):
        hash_files(tree)


def test_one_by_one(place: ObjectsPlace) -> None:
    """By its name, without looking at the root first; in another process, too."""
    assert open_bytes(place / "partition=0/x y").span(0, 9) == b"x"
    again = pickle.loads(pickle.dumps(place))  # noqa: S301, TID251 -- our own
    with open_log_dir(again / "partition=0") as directory:
        assert ["bucket=0", "x y"] == directory.names()
    large = open_bytes(again / "partition=0/bucket=0/large")
    for start, size in ((RANGE_BYTES - 5, 10), (len(LARGE) - 3, 10), (0, len(LARGE)), (7, 1)):
        assert LARGE[start : start + size] == large.span(start, size)
    assert str(again / "partition=0/x y") == f"{place.listing.bucket.url}/partition=0/x y"
    assert entry_at(place / "nothing") is None


@pytest.mark.parametrize(
    ("name", "error"), [("partition=0", UnreadableFile), ("nothing", UnreadableFile)]
)
def test_what_is_no_file(place: ObjectsPlace, name: str, error: type[Exception]) -> None:
    """A directory, and what is not there."""
    with pytest.raises(error):
        open_bytes(place / name)


@pytest.mark.parametrize("name", ["empty", "nothing"])
def test_what_is_no_directory(place: ObjectsPlace, name: str) -> None:
    """A file, and what is not there."""
    with pytest.raises(NotALogDir):
        list_tree(place / name)


def test_a_prefix_of_nothing(bucket: Bucket) -> None:
    """Nothing is there."""
    with pytest.raises(NotALogDir):
        list_tree(objects_of(f"{bucket.url}/nothing"))


def test_a_marker_of_a_directory(bucket: Bucket, port: int) -> None:
    """What consoles write for an empty directory: an object whose name ends in a slash."""
    before = {each.key for each in bucket.listing("")}
    for name in ("", "partition=0/", "made/"):
        put_marker(port, f"{bucket.url}/{name}")
    place = objects_of(bucket.url)
    assert {*before, "partition=0", "made"} == set(hash_files(list_tree(place)))
    made = Bucket.of(f"{bucket.url}/new")
    put_marker(port, f"{made.url}/")
    assert [] == made.listing("")
