"""Which metadata belongs to a log directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.policies import Policies
from logwright.config.sources import read_sources
from logwright.errors import CorruptLogError, NotALogDir, PreconditionError, UnreadableFile
from logwright.metadata import find
from logwright.metadata.find import find_metadata
from logwright.metadata.model import DirectoryIds
from logwright.metadata.read import read_directory_ids

PROPERTIES = (
    "#\n#Mon Nov 23 14:43:19 UTC 2026\nnode.id={}\ndirectory.id={}\nversion=1\ncluster.id={}\n"
)


def log_dir(path: Path, *, cluster: str = "c", node: int = 1, metadata: bool = False) -> Path:
    """A log directory, perhaps with metadata."""
    path.mkdir()
    (path / "meta.properties").write_text(PROPERTIES.format(node, path.name, cluster))
    if metadata:
        (path / "__cluster_metadata-0").mkdir()
    return path


def test_meta_properties(tmp_path: Path) -> None:
    """The three ids, as a broker writes them; what must be escaped in the file is not in the id."""
    directory = log_dir(tmp_path / "a", cluster="x\\=y\\:z", node=12)
    expected = DirectoryIds(cluster_id="x=y:z", node_id=12, directory_id="a")
    assert expected == read_directory_ids(directory)


def test_no_meta_properties(tmp_path: Path) -> None:
    """Without the file, or without a line in it, an id is None."""
    nothing = DirectoryIds(cluster_id=None, node_id=None, directory_id=None)
    assert nothing == read_directory_ids(tmp_path)
    (tmp_path / "meta.properties").write_text("broker.id=1\nversion=0\n")
    assert nothing == read_directory_ids(tmp_path)


@pytest.mark.parametrize("content", [b"node.id=x\n", b"node.id=99999999999\n", b"#" * 65_537])
def test_a_malformed_meta_properties_is_refused(tmp_path: Path, content: bytes) -> None:
    """The file is named."""
    (tmp_path / "meta.properties").write_bytes(content)
    with pytest.raises(CorruptLogError) as refused:
        read_directory_ids(tmp_path)
    assert tmp_path / "meta.properties" == refused.value.path


def test_meta_properties_may_be_no_symlink(tmp_path: Path) -> None:
    """Nor is it followed."""
    (tmp_path / "elsewhere").write_text("node.id=1\n")
    (tmp_path / "meta.properties").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnreadableFile):
        read_directory_ids(tmp_path)


def test_a_directory_s_own_metadata(tmp_path: Path) -> None:
    """It comes before that of a sibling, and needs no meta.properties."""
    own = log_dir(tmp_path / "b", metadata=True)
    log_dir(tmp_path / "a", metadata=True)
    assert own / "__cluster_metadata-0" == find_metadata(own)
    (own / "meta.properties").unlink()
    assert own / "__cluster_metadata-0" == find_metadata(own)


def test_a_sibling_s_metadata(tmp_path: Path) -> None:
    """Only of the same cluster and the same node."""
    own = log_dir(tmp_path / "b")
    log_dir(tmp_path / "a", cluster="other", metadata=True)
    log_dir(tmp_path / "c", node=2, metadata=True)
    (log_dir(tmp_path / "d", metadata=True) / "meta.properties").write_text("node.id=x\n")
    (log_dir(tmp_path / "e", metadata=True) / "meta.properties").unlink()
    (tmp_path / "f").write_text("no directory")
    log_dir(tmp_path / "g")
    assert find_metadata(own) is None
    sibling = log_dir(tmp_path / "h", metadata=True)
    assert sibling / "__cluster_metadata-0" == find_metadata(own)


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The siblings of the working directory are found too."""
    own = log_dir(tmp_path / "b")
    sibling = log_dir(tmp_path / "a", metadata=True)
    monkeypatch.chdir(own)
    assert sibling / "__cluster_metadata-0" == find_metadata(Path())


def test_a_directory_without_ids_has_no_siblings(tmp_path: Path) -> None:
    """Two directories that both lack the ids are not of one node for that."""
    own, sibling = log_dir(tmp_path / "a"), log_dir(tmp_path / "b", metadata=True)
    for directory in (own, sibling):
        (directory / "meta.properties").write_text("version=1\n")
    assert find_metadata(own) is None


def test_symlinks_are_not_followed(tmp_path: Path) -> None:
    """Neither to a sibling, nor to the metadata in the directory or in a sibling."""
    own = log_dir(tmp_path / "a")
    (tmp_path / "elsewhere").mkdir()
    there = log_dir(tmp_path / "elsewhere" / "x", metadata=True)
    (tmp_path / "b").symlink_to(there)
    (own / "__cluster_metadata-0").symlink_to(there / "__cluster_metadata-0")
    sibling = log_dir(tmp_path / "c")
    (sibling / "__cluster_metadata-0").symlink_to(there / "__cluster_metadata-0")
    assert find_metadata(own) is None


def test_two_siblings_with_metadata_are_refused(tmp_path: Path) -> None:
    """One of them is stale, and it is unknown which: it is given, or the command does without."""
    own = log_dir(tmp_path / "a")
    for name in ("b", "c"):
        log_dir(tmp_path / name, metadata=True)
    with pytest.raises(PreconditionError, match=r"/b/__cluster_metadata-0 and .*/c/"):
        find_metadata(own)
    with pytest.raises(PreconditionError) as refused:
        read_sources(own, policies=Policies(), command_line={})
    remedy = str(refused.value.remedy)
    assert "--metadata" in remedy
    assert "--no-metadata" in remedy


def test_siblings_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a limited number of the parent's entries is checked."""
    own = log_dir(tmp_path / "a")
    log_dir(tmp_path / "c", metadata=True)
    monkeypatch.setattr(find, "MOST_SIBLINGS", 2)
    assert find_metadata(own) is not None
    (tmp_path / "b").mkdir()
    assert find_metadata(own) is None


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """It is refused by name."""
    with pytest.raises(NotALogDir):
        find_metadata(tmp_path / "missing")
