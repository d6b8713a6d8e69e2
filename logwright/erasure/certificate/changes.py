"""What has changed in directories since a certificate was made."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from logwright.erasure.certificate.manifest import File, Report, hash_files
from logwright.erasure.certificate.model import Certificate, ManifestFile
from logwright.erasure.names import is_hidden, may_be
from logwright.log.tree import Tree, list_tree
from logwright.place.model import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The differences of one directory from a manifest; paths are sorted.

    Attributes:
        added: files that the manifest does not have.
        removed: files of the manifest that are not there.
        altered: files with another size or content.
        same: number of files that are as they were.
        not_read: path → why; what is there and is not a file, or cannot be listed.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    same: int = 0
    not_read: Mapping[str, str]

    @property
    def any(self) -> bool:
        """Whether anything differs."""
        return bool(self.added or self.removed or self.altered or self.not_read)


def changes_since(
    certificate: Certificate, directories: Sequence[Place], report: Report | None = None
) -> list[Changes]:
    """Return what changed in each directory. Effects: reads all files of the same size.

    Args:
        certificate: whose manifest is compared.
        directories: in the order of the certificate's, as many.
        report: called with the progress of each directory.

    Raises:
        StalePlan: a file changes while it is read.
        LogwrightError: a directory or a file cannot be read.
    """
    return [_changes(certificate, number, path, report) for number, path in enumerate(directories)]


def _changes(certificate: Certificate, number: int, root: Place, report: Report | None) -> Changes:
    tree = list_tree(root)
    files = [file for file in certificate.manifest if file.directory == number]
    hidden = [file for file in files if _is_hidden(file.path.path, tree.files)]
    before = {file.path.path: file for file in files if not _is_hidden(file.path.path, tree.files)}
    worth = {
        path: stamp
        for path, stamp in tree.files.items()
        if _may_be_same(before.get(path), stamp.size)
        or any(may_be(file.path.path, path) and file.bytes == stamp.size for file in hidden)
    }
    now = hash_files(Tree(root=root, files=worth), report)
    known: dict[str, str] = {}
    for entry in certificate.not_read:
        if entry.directory == number:
            shown = entry.path.path
            again = [path for path in tree.others if may_be(shown, path)]
            known |= dict.fromkeys([shown, *again], entry.why)
    return compared(_with_names(before, hidden, now), tree, now, known)


def _is_hidden(path: str, there: Container[str]) -> bool:
    return is_hidden(path) and path not in there


def _with_names(
    before: Mapping[str, ManifestFile],
    hidden: Sequence[ManifestFile],
    now: Mapping[str, File],
) -> dict[str, ManifestFile]:
    """Return a manifest with the names of files whose paths it does not show: a file with the same
    content, and a path that may be it. Several can be shown alike.
    """
    named = dict(before)
    for file in hidden:
        shown = file.path.path
        paths = (path for path in now if path not in named and may_be(shown, path))
        same = next((path for path in paths if now[path].sha256 == file.sha256), None)
        named[shown if same is None else same] = file
    return named


def compared(
    before: Mapping[str, ManifestFile],
    tree: Tree,
    now: Mapping[str, File],
    known: Mapping[str, str],
) -> Changes:
    """Return the differences. Pure.

    Args:
        before: the manifest.
        tree: what is there.
        now: the digests of files that may be the same.
        known: what could not be read then either, and why.
    """
    common = before.keys() & tree.files.keys()
    same = {path for path in common if path in now and now[path].sha256 == before[path].sha256}
    return Changes(
        added=tuple(sorted(tree.files.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - tree.files.keys())),
        altered=tuple(sorted(common - same)),
        same=len(same),
        not_read={path: why for path, why in tree.others.items() if known.get(path) != why},
    )


def _may_be_same(before: ManifestFile | None, size: int) -> bool:
    return before is not None and before.bytes == size
