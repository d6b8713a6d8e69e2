"""What is not installed is named, with the command that installs it; the base needs none of it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType

import pytest

from logwright.extras import MODULES, MissingExtra, require
from tests.fixtures import clean_arguments, compare_after, copy_before

ROOT = Path(__file__).parent.parent.parent
CASE = "basic-none"
HIDING = "import sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split())); "
"""A module that is None in sys.modules can neither be found nor imported."""
COMMAND = "from logwright.cli.main import main; main()"


def run_without(
    hidden: Iterable[str], program: str, *arguments: str | Path
) -> subprocess.CompletedProcess[str]:
    """A program, run by a Python in which some modules are as if they were not installed."""
    return subprocess.run(
        [sys.executable, "-c", HIDING + program, " ".join(hidden), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("extra", "hidden", "arguments"),
    [
        ("spark", "pyspark", ("clean", "LOG_DIR", "--engine", "spark", "--yes")),
        ("spark", "pyarrow", ("ingest", "LOG_DIR", "--from", "LOG_DIR", "--topic", "t", "--yes")),
        ("tables", "deltalake", ("latest", "LOG_DIR", "t", "--to", "LOG_DIR")),
        ("dagster", "dagster", ("demo", "--no-ui", "--home", "LOG_DIR")),
        (
            "archive",
            "confluent_kafka",
            ("archive", "LOG_DIR", "--bootstrap", "localhost:1", "--topic", "t", "--yes"),
        ),
    ],
)
def test_a_command_names_the_extra_that_it_needs(
    tmp_path: Path, extra: str, hidden: str, arguments: tuple[str, ...]
) -> None:
    """One sentence with the missing module and the remedy, and the status of a precondition."""
    log_dir = copy_before(CASE, tmp_path)
    given = [str(log_dir) if one == "LOG_DIR" else one for one in arguments]
    done = run_without([hidden], COMMAND, *given)
    assert done.returncode == MissingExtra.exit_status == 5, done.stderr
    assert done.stderr.startswith("Error: ")
    assert f" needs {hidden}, not installed here. " in done.stderr
    assert f"pip install 'logwright[{extra}]'." in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("extra", "hidden", "module"),
    [
        ("spark", "pyspark", "logwright.spark.sweep"),
        ("dagster", "pandera", "logwright.assets.segments.segment_set"),
        ("dagster", "dagster_pyspark", "logwright.resources.spark"),
        ("dagster", "dagster", "logwright.pipelines.definitions"),
    ],
)
def test_an_import_names_the_extra_that_it_needs(extra: str, hidden: str, module: str) -> None:
    """Python's programs and tools expect an ImportError there."""
    program = (
        f"\ntry:\n    import {module}\nexcept ImportError as error:\n    print(repr(error), error)"
    )
    done = run_without([hidden], program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("MissingExtra(")
    assert f"needs {hidden}, not installed here." in done.stdout
    assert f"pip install 'logwright[{extra}]'." in done.stdout


def test_the_base_cleans_without_any_extra(tmp_path: Path) -> None:
    """The engine and the command line import nothing that an extra brings; what they leave is what
    Kafka left.
    """
    log_dir = copy_before(CASE, tmp_path)
    hidden = {name for names in MODULES.values() for name in names}
    done = run_without(hidden, COMMAND, "clean", log_dir, *clean_arguments(CASE))
    assert done.returncode == 0, done.stderr
    assert compare_after(CASE, log_dir) == []


def test_every_missing_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the first alone; and what is there is not."""
    for name in ("pandera", "dagster_webserver"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match="x needs dagster_webserver, pandera, not installed"):
        require("dagster", by="x")


def test_the_table_of_extras_is_whole() -> None:
    """Each extra that a user may install has its row."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs/installing.md").read_text()
    rows = set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE))
    assert project["optional-dependencies"].keys() - {"dev"} == rows


def test_a_package_whose_parent_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as google.protobuf without google: it is named like any other."""
    gone = MappingProxyType({"x": ("no_such_parent.module", "json")})
    monkeypatch.setattr("logwright.extras.MODULES", gone)
    with pytest.raises(MissingExtra, match=r"y needs no_such_parent\.module, not installed"):
        require("x", by="y")


@pytest.mark.parametrize(("hidden", "discovered"), [("", "True"), ("pandas", "False")])
def test_sparks_discovery_survives_a_missing_extra(hidden: str, discovered: str) -> None:
    """An import that fails there would take all other data sources from a session."""
    program = "import pyspark_logwright as found; print(hasattr(found, 'DefaultSource'))"
    done = run_without(hidden.split(), program)
    assert (0, discovered) == (done.returncode, done.stdout.strip()), done.stderr
