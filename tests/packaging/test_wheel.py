"""What is published: its content, its size, and that a source distribution gives the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.packaging.building import build, contents, copy_sources
from tests.tidy.trees import modules

SOURCE_LINK = re.compile(r"\]\((?!https?:)")
BUILT_AT = {"SOURCE_DATE_EPOCH": "1764115200"}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a clean clone."""
    return copy_sources(tmp_path_factory.mktemp("clone") / "logwright")


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from it."""
    return build("wheel", sources, tmp_path_factory.mktemp("wheel") / "dist")


@pytest.fixture(scope="module")
def distribution(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of the same."""
    return build("sdist", sources, tmp_path_factory.mktemp("sdist") / "dist")


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    """Every module under its one name, typed, with its configuration; no tests, no packed log."""
    names = {name for name in contents(wheel) if ".dist-info/" not in name}
    expected = {
        f"{module.name.replace('.', '/')}{end}.py"
        for module in modules()
        for end in ["/__init__" if module.path.name == "__init__.py" else ""]
        if module.name.partition(".")[0] == "logwright"
    }
    expected.add("pyspark_logwright.py")
    assert expected == {name for name in names if name.endswith(".py")}
    others = {re.sub(r"[\w-]+\.yml$", "*.yml", name) for name in names - expected}
    assert others == {
        "logwright/assets/fleet/page.html",
        "logwright/assets/segments/data_docs.css",
        "logwright/dbt_like_configs/*.yml",
        "logwright/demo/settings.json",
        "logwright/erasure/case/page.html",
        "logwright/kernels.json",
        "logwright/pipelines/dagster-postgres.yaml",
        "logwright/pipelines/dagster.yaml",
        "logwright/py.typed",
    }


def test_the_wheel_is_small(wheel: Path) -> None:
    """The demo's log alone would be 2.5 MB."""
    assert wheel.stat().st_size < 2_000_000


def test_a_source_distribution_gives_the_same_wheel(
    distribution: Path, wheel: Path, tmp_path: Path
) -> None:
    """The linked folders are in it as files."""
    again = build("wheel", distribution, tmp_path / "wheel")
    assert contents(wheel) == contents(again)


def metadata_of(wheel: Path) -> Message:
    (text,) = (body for name, body in contents(wheel).items() if name.endswith("/METADATA"))
    return Parser().parsestr(text.decode())


def test_an_index_can_show_the_description(wheel: Path) -> None:
    """It has no links or pictures that are relative to the repository."""
    metadata = metadata_of(wheel)
    assert metadata["Description-Content-Type"] == "text/markdown"
    description = str(metadata.get_payload())
    assert "pip install 'logwright[dagster]'" in description
    assert SOURCE_LINK.findall(description) == []


def test_the_metadata_says_what_it_is(sources: Path, wheel: Path) -> None:
    """Version, license, links, who makes it without anybody's address, and each Python."""
    declared = tomllib.loads((sources / "pyproject.toml").read_text())["project"]
    metadata = metadata_of(wheel)
    assert declared["version"] == metadata["Version"]
    assert "Apache-2.0" == metadata["License-Expression"]
    assert ["LICENSE"] == metadata.get_all("License-File")
    assert "The logwright maintainers" == metadata["Author"] == metadata["Maintainer"]
    assert "@" not in f"{metadata['Author-email']}{metadata['Maintainer-email']}"
    links = {line.partition(",")[0] for line in metadata.get_all("Project-URL", [])}
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} == links
    version = "Programming Language :: Python :: 3."
    pythons = [line for line in metadata.get_all("Classifier", []) if line.startswith(version)]
    assert [f"{version}{minor}" for minor in range(11, 15)] == pythons


def bill_of(wheel: Path) -> bytes:
    (text,) = (body for name, body in contents(wheel).items() if ".dist-info/sboms/" in name)
    return text


def test_the_wheel_has_a_bill_of_materials(sources: Path, wheel: Path) -> None:
    """PEP 770, valid CycloneDX; it has each pin of the lock once, and names what is direct."""
    bill = bill_of(wheel)
    assert None is JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill.decode())
    lock = (sources / "requirements" / "runtime.txt").read_text()
    pinned = [line.split()[0] for line in lock.splitlines() if "==" in line]
    document = json.loads(bill)
    listed = [f"{part['name']}=={part['version']}" for part in document["components"]]
    assert sorted(pinned) == sorted(listed)
    (graph,) = document["dependencies"]
    direct = {ref.removeprefix("pkg:pypi/").partition("@")[0] for ref in graph["dependsOn"]}
    assert {"click", "numba", "pyspark", "dagster", "deltalake", "cryptography"} <= direct
    assert "py4j" not in direct


@pytest.mark.rotates(4)
def test_two_builds_are_equal_to_the_byte(tmp_path: Path) -> None:
    """In another directory, at another time, of files that were checked out at another time."""
    built = []
    for number in (0, 1):
        clone = copy_sources(tmp_path / f"clone{number}" / "logwright")
        for path in clone.rglob("*"):
            os.utime(path, (number * 10**9, number * 10**9), follow_symlinks=False)
        target = tmp_path / f"built{number}"
        target.mkdir()
        built.append([build(kind, clone, target / kind, **BUILT_AT) for kind in ("wheel", "sdist")])
    for first, second in zip(*built, strict=True):
        assert first.name == second.name
        assert first.read_bytes() == second.read_bytes()


def test_an_index_would_take_it(distribution: Path, wheel: Path) -> None:
    """What twine finds wrong before an upload."""
    words = [sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(distribution)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
