"""What is imported is installed: by the base, or by the extra that a feature names.

A feature is a command, a package that requires an extra when it is imported, a format of tables or
a decoder. Its imports are followed through the modules of logwright, those at the top of a module
and, with what its functions require, those inside of functions.
"""

from __future__ import annotations

import ast
import importlib
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from typing import Any, NamedTuple

import click
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from logwright.cli.main import _COMMANDS as COMMANDS
from logwright.config.spec import FORMATS as DECODERS
from logwright.config.table import FORMATS
from logwright.extras import MODULES
from tests.tidy.trees import ROOT, Module, modules

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORTED = {"google-crc32c": "google_crc32c", "google-re2": "re2", "pyyaml": "yaml"}
BROUGHT = {"markupsafe", "py4j", "pydantic_core", "sqlalchemy", "urllib3"}
"""What Jinja, PySpark, pydantic, pyiceberg and requests need themselves."""
NONE: frozenset[str] = frozenset()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Parts(NamedTuple):
    """What a module imports and requires: when it is imported, and when functions are called."""

    imports: frozenset[str]
    later_imports: frozenset[str]
    extras: frozenset[str]
    later_extras: frozenset[str]


class Feature(NamedTuple):
    """Something that names its extras; `module` is where it begins."""

    module: str
    extras: frozenset[str]


@cache
def ours() -> dict[str, Module]:
    """The package's own modules, by name."""
    return {module.name: module for module in modules() if module.name.split(".")[0] == "logwright"}


@cache
def base() -> set[str]:
    """The modules that are always there."""
    names = {Requirement(line).name.lower() for line in PROJECT["dependencies"]}
    installed = {IMPORTED.get(name, name.replace("-", "_")) for name in names}
    return installed | sys.stdlib_module_names | BROUGHT


def reached(node: ast.AST, *, called: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every node that is run, and whether only by a call; not what is for type checkers."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child, called
            yield from reached(child, called=called or isinstance(child, FUNCTIONS))


def names_of(node: ast.AST) -> Iterator[str]:
    """The modules that an import names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in ours() else node.module


def extras_of(node: ast.AST) -> Iterator[str]:
    """The extra that a call of `require` names."""
    match node:
        case ast.Call(func=ast.Name(id="require"), args=[ast.Constant(value=str(extra))]):
            yield extra


@cache
def parts_of(name: str) -> Parts:
    """Imports and extras of a module of logwright."""
    nodes = list(reached(ours()[name].tree))
    return Parts(
        *(
            frozenset(value for node, called in nodes if called is later for value in values(node))
            for values in (names_of, extras_of)
            for later in (False, True)
        )
    )


def with_packages(name: str) -> Iterator[str]:
    """A module of logwright and the packages that are imported before it."""
    words = name.split(".")
    packages = (".".join(words[:length]) for length in range(1, len(words) + 1))
    return (package for package in packages if package in ours())


def wrong_imports(features: Iterable[Feature]) -> set[str]:
    """What features import that neither the base nor an extra named on the way there has."""
    wrong: set[str] = set()
    seen: set[tuple[str, frozenset[str], frozenset[str]]] = set()
    pending = [(feature.module, feature.extras, feature.extras) for feature in features]
    while pending:
        name, now, later = pending.pop()
        packages = list(with_packages(name))
        now = now.union(*(parts_of(package).extras for package in packages))
        for module in packages:
            parts = parts_of(module)
            called = now | later | parts.later_extras
            if (module, now, called) in seen:
                continue
            seen.add((module, now, called))
            for names, extras in ((parts.imports, now), (parts.later_imports, called)):
                mine = names & ours().keys()
                pending += [(other, extras, called) for other in mine]
                wrong |= {
                    f"{module} imports {other} with {', '.join(sorted(extras)) or 'the base'}"
                    for other in names - mine
                    if not is_installed(other, extras)
                }
    return wrong


@cache
def is_installed(name: str, extras: frozenset[str]) -> bool:
    """Whether a module is in the base or in one of these extras."""
    there = {module for extra in extras for module in MODULES[extra]}
    return name.partition(".")[0] in base() or any(
        name == module or name.startswith(f"{module}.") for module in there
    )


def commands_of(command: click.Command) -> Iterator[click.Command]:
    """A command, or those of a group."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from commands_of(inner)
    else:
        yield command


def features() -> Iterator[Feature]:
    """All of them."""
    yield Feature("logwright.cli.run.new_key", frozenset({"erasure"}))
    for name in COMMANDS:
        options = importlib.import_module(f"logwright.cli.options.{name.replace('-', '_')}")
        for command in commands_of(options.command):
            extras = NONE if command.extra is None else frozenset({command.extra})
            yield Feature(f"logwright.cli.run.{command.module}", extras)
    for name in ours():
        if any(parts_of(package).extras for package in with_packages(name)):
            yield Feature(name, NONE)
    for form in FORMATS.values():
        yield Feature(form.store.partition(":")[0], frozenset({form.extra}))
    for spec in DECODERS.values():
        yield Feature(spec.made_by, frozenset({"tables"}))


def test_what_a_feature_imports_is_in_its_extra() -> None:
    """Else a user who installed what the message says would see a traceback."""
    every = set(features())
    assert len(every) > len(COMMANDS)
    assert set() == wrong_imports(every)


def test_every_import_is_of_the_base_or_of_an_extra() -> None:
    """A module that is in none would end a command in a traceback, also where no feature leads."""
    every = frozenset(MODULES)
    wrong = {
        f"{module} imports {name}"
        for module in ours()
        for name in parts_of(module).imports | parts_of(module).later_imports
        if name.partition(".")[0] != "logwright" and not is_installed(name, every)
    }
    assert set() == wrong


def test_an_extra_brings_its_modules() -> None:
    """A remedy that installs an extra must install all that is required of it."""
    distributions = packages_distributions()
    for extra, names in MODULES.items():
        brought = brought_by(extra)
        missing = [
            name
            for name in names
            if not brought & set(map(canonicalize_name, distributions[name.partition(".")[0]]))
        ]
        assert [] == missing, extra


def brought_by(extra: str) -> set[str]:
    """The distributions of an extra and of those that it includes."""
    wanted = [Requirement(line) for line in PROJECT["optional-dependencies"][extra]]
    names = {canonicalize_name(each.name) for each in wanted}
    included = {inner for each in wanted if each.name == "logwright" for inner in each.extras}
    return names.union(*map(brought_by, included))
