"""A tier in object storage: what is read of it is what is read of the same files in a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.bucket.store import Bucket
from logwright.errors import CorruptObject, UnreadableFile
from logwright.tier.objects import DirectoryObjects, objects_of
from logwright.tier.place import with_tier
from logwright.tier.tier import TierOptions
from tests.bucket.servers import environment, make_bucket, served
from tests.tiers import PARTITIONS, TIERS, Tiered, rows_of, unpacked


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a bucket of a server that is the environment's."""
    with served() as port, pytest.MonkeyPatch.context() as patch:
        for name, value in environment(port).items():
            patch.setenv(name, value)
        make_bucket(port, f"tier-{port}")
        yield f"s3://tier-{port}"


@pytest.fixture
def bucket(server: str, request: pytest.FixtureRequest) -> Bucket:
    """A prefix of it."""
    return Bucket.of(f"{server}/{abs(hash(request.node.name))}")


def store(bucket: Bucket, root: Path) -> None:
    """Put all files below a directory into a bucket."""
    for path in filter(Path.is_file, root.rglob("*")):
        bucket.put_unique(str(path.relative_to(root)), path.read_bytes())


@pytest.mark.parametrize("name", TIERS)
def test_the_rows_are_those_of_a_consumer(name: str, bucket: Bucket, tmp_path: Path) -> None:
    """Of all partitions."""
    tiered: Tiered = unpacked(name, tmp_path)
    store(bucket, tiered.remote)
    (place,) = with_tier([tiered.logs], TierOptions.of(bucket.url, tiered.key))
    for partition in PARTITIONS:
        assert tiered.consumed("read_uncommitted", partition) == rows_of(place, partition)


def test_objects_are_listed_and_read_as_files_are(bucket: Bucket, tmp_path: Path) -> None:
    """By their keys below the prefix; a range that ends beyond the object is shorter."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.log").write_bytes(b"0123456789")
    store(bucket, tmp_path)
    here, there = DirectoryObjects(tmp_path), objects_of(bucket.url)
    sizes = {key: stat.bytes for key, stat in here.listing().items()}
    assert sizes == {key: stat.bytes for key, stat in there.listing().items()}
    for position, size in ((0, 4), (4, 6), (8, 8), (10, 1), (20, 4)):
        assert here.read("a/b.log", position, size) == there.read("a/b.log", position, size)
    with pytest.raises(UnreadableFile, match="is not there"):
        there.read("a/c.log", 0, 1)


def test_a_cut_object_is_named(bucket: Bucket, tmp_path: Path) -> None:
    """By its key, as in a directory."""
    tiered = unpacked("plain", tmp_path)
    store(bucket, tiered.remote)
    cut = tiered.object("plain-*/1/00000000000000000000-*.log")
    bucket.put_unique(str(cut.relative_to(tiered.remote)), cut.read_bytes()[:11_000])
    (place,) = with_tier([tiered.logs], TierOptions.of(bucket.url, None))
    with pytest.raises((CorruptObject, UnreadableFile)) as caught:
        rows_of(place, "plain-1")
    assert cut.name in str(caught.value)
