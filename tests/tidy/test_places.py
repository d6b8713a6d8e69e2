"""What only reads a log directory reads it through `logwright.place`, wherever it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.trees import Module, imports, modules, nodes

READERS = (
    "logwright.audit",
    "logwright.batches",
    "logwright.erasure.certificate.changes",
    "logwright.erasure.certificate.make",
    "logwright.erasure.certificate.manifest",
    "logwright.erasure.certificate.replicas",
    "logwright.erasure.certificate.search",
    "logwright.erasure.find.columns",
    "logwright.erasure.find.elsewhere",
    "logwright.erasure.find.kinds",
    "logwright.erasure.outlook.removals",
    "logwright.erasure.find.result",
    "logwright.erasure.find.scan",
    "logwright.erasure.find.search",
    "logwright.erasure.find.texts",
    "logwright.erasure.find.walk",
    "logwright.latest.missing",
    "logwright.latest.model",
    "logwright.latest.plan",
    "logwright.latest.read",
    "logwright.log",
    "logwright.metadata",
    "logwright.records",
    "logwright.spark.kafka_log_plan",
    "logwright.tier.chunks",
    "logwright.tier.layout",
    "logwright.tier.lineage",
    "logwright.tier.local_storage",
    "logwright.tier.manifest",
    "logwright.tier.metadata",
    "logwright.tier.model",
    "logwright.tier.parts",
    "logwright.tier.plugin",
    "logwright.verify",
)
"""Packages and modules that only read logs."""

OF_THIS_MACHINE = {
    "logwright.batches.runtime": "it asks how many cores there are",
    "logwright.erasure.certificate.manifest": "it asks how many cores there are",
    "logwright.erasure.find.columns": "a table is a directory of this machine",
    "logwright.log.enclosing": "it protects this machine's log directories from other output",
    "logwright.log.listing": "it makes values of a status; the listing of a fleet takes no detour",
    "logwright.verify.against": "it plans a cleaning, which only a directory of this machine has",
}
"""Modules of readers that are about this machine, each with its reason."""

FILE_MODULES = frozenset(("io", "mmap", "os", "pathlib", "shutil", "stat"))
FILE_METHODS = frozenset(
    (
        "absolute",
        "exists",
        "is_dir",
        "is_file",
        "is_symlink",
        "iterdir",
        "glob",
        "lstat",
        "read_bytes",
        "read_text",
        "resolve",
        "rglob",
        "samefile",
        "stat",
    )
)
"""Methods of a Path that ask the file system; those of `OpenDir` take an argument."""


def readers() -> list[Module]:
    """The modules that only read."""
    return [
        module
        for module in modules()
        if module.name not in OF_THIS_MACHINE
        and any(module.name == one or module.name.startswith(f"{one}.") for one in READERS)
    ]


def file_calls(module: Module) -> Iterator[tuple[int, str]]:
    """Line and name of each call that opens a file, or asks the file system of a path."""
    for node in nodes(module):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            yield node.lineno, "open"
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in FILE_METHODS
            and not node.args
        ):
            yield from [(node.lineno, node.func.attr)] if node.func.attr in FILE_METHODS else []


def test_readers_do_not_open_files_themselves() -> None:
    """They import nothing that reads this machine's files, and ask no path for what is there."""
    wrong = []
    for module in readers():
        for line, name in imports(module):
            if name.split(".")[0] in FILE_MODULES:
                wrong.append(f"{module.path}:{line} imports {name}")
        wrong += [f"{module.path}:{line} calls {name}" for line, name in file_calls(module)]
    assert wrong == []


def test_each_exception_is_needed() -> None:
    """A module that is named with a reason still needs it."""
    needed = {
        module.name
        for module in modules()
        if any(name.split(".")[0] in FILE_MODULES for _, name in imports(module))
    }
    assert set(OF_THIS_MACHINE) - needed == set()
