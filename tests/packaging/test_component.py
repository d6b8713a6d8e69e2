"""A Dagster project that `create-dagster` makes, with the component, in a fresh environment:
from nothing to a green sweep by the commands of docs/installing.md.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import POLICY
from tests.fixtures import copy_before
from tests.packaging.building import build, copy_sources, uv
from tests.packaging.environments import PYTHONS, Environment, Published

pytestmark = [pytest.mark.nightly, pytest.mark.needs_rights(f"python{PYTHONS[0]}")]

CASE = "basic-mixed"
PAGE = Path(__file__).parents[2] / "docs" / "installing.md"


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    """With the platform and Dagster's tools for projects."""
    sources = copy_sources(tmp_path / "logwright")
    wheel = build("wheel", sources, tmp_path / "dist")
    published = Published(wheel=wheel, sources=sources, caches=tmp_path / "kernels")
    root = tmp_path / "environment"
    made = published.install(root, version=PYTHONS[0], ends="highest", extra="dagster")
    uv("pip", "install", *_python(root), "create-dagster", "dagster-dg-cli", cwd=root)
    yield made
    shutil.rmtree(root, ignore_errors=True)


def commands_of_the_page() -> list[list[str]]:
    """The first block of the page's section about new projects."""
    section = PAGE.read_text().partition("## In a new Dagster project")[2]
    block = section.split("```")[1]
    return [line.split() for line in block.strip().splitlines()]


def test_a_new_project_sweeps(tmp_path: Path, environment: Environment) -> None:
    """The page's commands in their order, for another log directory."""
    log_dir = copy_before(CASE, tmp_path)
    project = environment.root.parent / "my-project"
    policies = project / "src" / "my_project" / "defs" / "kafka_logs" / "policies" / "topics.yml"
    create, scaffold, check, launch = commands_of_the_page()
    scaffold[-1] = str(log_dir)
    for words in (create, scaffold):
        _run(environment, words, project)
    assert "cleanup.policy" in policies.read_text()
    policies.write_text(POLICY)
    uv("pip", "install", *_python(environment.root), "--editable", project, cwd=project)
    for words in (check, launch):
        _run(environment, words, project)
    assert list((log_dir / "t-0").glob("*.log.deleted"))
    verified = environment.run("logwright", "verify", log_dir)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def _python(root: Path) -> tuple[str | Path, ...]:
    return "--python", root / "bin" / "python"


def _run(environment: Environment, words: list[str], project: Path) -> None:
    """Run a command in the project, if it exists already."""
    program, *rest = words
    cwd = project if project.is_dir() else project.parent
    done = environment.run(program, *rest, cwd=cwd, VIRTUAL_ENV=str(environment.root))
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
