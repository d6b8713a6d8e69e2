"""The commands of docs/installing.md, as they stand there, in a directory that has nothing yet."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version as installed
from pathlib import Path

import pytest

from tests.e2e.harness import POLICY
from tests.fixtures import copy_before
from tests.packaging.building import build, copy_sources
from tests.packaging.environments import PYTHONS, find_python
from tests.tidy.trees import ROOT

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(3600),
    pytest.mark.parametrize(
        "version",
        [
            pytest.param(version, marks=pytest.mark.needs_rights(f"python{version}"))
            for version in PYTHONS
        ],
    ),
]

BLOCK = re.compile(r"^## In a `dg` project\n+```\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel."""
    directory = tmp_path_factory.mktemp("published")
    return build("wheel", copy_sources(directory / "logwright"), directory / "wheels").parent


def test_a_fresh_project_takes_it_in(tmp_path: Path, wheels: Path, version: str) -> None:
    """`create-dagster` makes a project, `uv add` finds versions for it, and a sweep is green."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("uv", "uvx"):
        (programs / name).symlink_to(Path(sys.executable).with_name(name))
    home = tmp_path / "instance"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    environment = kept | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "UV_FIND_LINKS": str(wheels),
        "UV_PYTHON": str(find_python(version)),
        "DAGSTER_HOME": str(home),
    }

    def shell(script: str, where: Path) -> None:
        done = subprocess.run(
            ["/bin/sh", "-ec", script],
            cwd=where,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        assert 0 == done.returncode, (done.stdout + done.stderr)[-4000:]

    (commands,) = BLOCK.findall((ROOT / "docs/installing.md").read_text())
    # Dagster publishes its packages one by one: of the newest release some may be missing.
    commands = commands.replace("create-dagster", f"create-dagster@{installed('dagster')}")
    making, check, rest = commands.partition("uv run dg check defs")
    assert check
    shell(making, tmp_path)
    project = tmp_path / "my-project"
    log_dir = copy_before("basic-mixed", tmp_path)
    component = project / "src/my_project/defs/kafka_logs"
    (component / "policies").mkdir()
    (component / "policies/policies.yml").write_text(POLICY)
    text = (component / "defs.yaml").read_text()
    text = text.replace("log_dirs: {}", f"log_dirs: {{broker1: {log_dir}}}")
    text = text.replace("# policies: policies", "policies: policies")
    (component / "defs.yaml").write_text(text)
    shell(check + rest, project)
    assert list((log_dir / "t-0").glob("*.log.deleted"))
