"""What is published: its content, its size, and that a source distribution gives the same."""

from __future__ import annotations

import re
from email.parser import Parser
from pathlib import Path

import pytest

from tests.packaging.building import build, contents, copy_sources
from tests.tidy.trees import modules

SOURCE_LINK = re.compile(r"\]\((?!https?:)")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a clean clone."""
    return copy_sources(tmp_path_factory.mktemp("clone") / "logwright")


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from it."""
    return build("wheel", sources, tmp_path_factory.mktemp("wheel") / "dist")


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
        "logwright/dbt_like_configs/*.yml",
        "logwright/demo/settings.json",
        "logwright/erasure/certificate/page.html",
        "logwright/kernels.json",
        "logwright/pipelines/dagster-postgres.yaml",
        "logwright/pipelines/dagster.yaml",
        "logwright/py.typed",
    }


def test_the_wheel_is_small(wheel: Path) -> None:
    """The demo's log alone would be 2.5 MB."""
    assert wheel.stat().st_size < 1_500_000


def test_a_source_distribution_gives_the_same_wheel(
    sources: Path, wheel: Path, tmp_path: Path
) -> None:
    """The linked folders are in it as files."""
    distribution = build("sdist", sources, tmp_path / "sdist")
    again = build("wheel", distribution, tmp_path / "wheel")
    assert contents(wheel) == contents(again)


def test_an_index_can_show_the_description(wheel: Path) -> None:
    """It has no links or pictures that are relative to the repository."""
    (text,) = (body for name, body in contents(wheel).items() if name.endswith("/METADATA"))
    metadata = Parser().parsestr(text.decode())
    assert metadata["Description-Content-Type"] == "text/markdown"
    description = str(metadata.get_payload())
    assert "pip install 'logwright[dagster]'" in description
    assert SOURCE_LINK.findall(description) == []
