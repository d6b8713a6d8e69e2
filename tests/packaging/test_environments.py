"""The wheel in fresh environments: the base alone, and the platform in somebody's own project; on
each Python, with the newest of what it depends on, and with the oldest that it claims to run with.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.extras import MissingExtra
from tests.e2e.harness import POLICY
from tests.fixtures import clean_arguments, compare_after, copy_before
from tests.packaging.building import build, copy_sources, uv
from tests.packaging.environments import PYTHONS, Ends, Published

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.parametrize(
        ("version", "ends"),
        [
            pytest.param(version, ends, marks=pytest.mark.needs_rights(f"python{version}"))
            for version, ends in [
                (PYTHONS[0], "lowest-direct"),
                *((version, "highest") for version in PYTHONS),
            ]
        ],
    ),
]

CASES = ("basic-mixed", "txn-1-mixed")
"""All codecs; transactions."""
PROJECT = Path(__file__).with_name("project.py")
READ = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.read.format("kafka-log").option("subscribe", "t").load(sys.argv[1]).count())
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """A wheel as from a clean clone, and one cache of compiled kernels for all environments."""
    directory = tmp_path_factory.mktemp("published")
    sources = copy_sources(directory / "logwright")
    wheel = build("wheel", sources, directory / "dist")
    return Published(wheel=wheel, sources=sources, caches=directory / "kernels")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Where the environment is, until the test ends: it takes up to 1.3 GB."""
    yield tmp_path / "environment"
    shutil.rmtree(tmp_path / "environment", ignore_errors=True)


def test_the_base_alone_cleans_as_kafka_does(
    tmp_path: Path, root: Path, published: Published, version: str, ends: Ends
) -> None:
    """No Dagster, no Spark, no JVM; and what is not there is named."""
    base = published.install(root, version=version, ends=ends)
    for case in CASES:
        log_dir = copy_before(case, tmp_path)
        done = base.run(
            "logwright", "clean", log_dir, *clean_arguments(case), PYTHONWARNINGS="error"
        )
        assert done.returncode == 0, done.stderr
        assert compare_after(case, log_dir) == []
    for extra, words in {
        "spark": ("clean", log_dir, "--engine", "spark", "--yes"),
        "dagster": ("demo", "--home", tmp_path / "demo"),
        "archive": ("archive", log_dir, "--bootstrap", "localhost:1", "--topic", "t", "--yes"),
    }.items():
        refused = base.run("logwright", *words)
        assert refused.returncode == MissingExtra.exit_status, refused.stderr
        assert f"pip install 'logwright[{extra}]'" in refused.stderr


def test_the_platform_runs_in_a_project_of_somebody_else(
    tmp_path: Path, root: Path, published: Published, version: str, ends: Ends
) -> None:
    """Merged with other definitions it loads, and a sweep is green and leaves what verifies."""
    platform = published.install(root, version=version, ends=ends, extra="dagster")
    log_dir = copy_before(CASES[0], tmp_path)
    for name in ("policies", "instance"):
        (tmp_path / name).mkdir()
    (tmp_path / "policies" / "policies.yml").write_text(POLICY)
    done = platform.run(
        "python",
        PROJECT,
        tmp_path / "instance",
        LOGWRIGHT_LOG_DIRS=str(log_dir),
        LOGWRIGHT_POLICIES=str(tmp_path / "policies"),
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert done.stdout.splitlines()[-2:] == ["sweep green", "own_job green"]
    assert list((log_dir / "t-0").glob("*.log.deleted"))
    verified = platform.run("logwright", "verify", log_dir)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    refused = platform.run("logwright", "demo", "--no-ui", "--home", tmp_path / "demo")
    assert "Run 'make demo' in a checkout" in refused.stderr


def test_spark_finds_the_format(
    tmp_path: Path, root: Path, published: Published, version: str, ends: Ends
) -> None:
    """With the Python of the environment; without it, where nothing is activated, it does not."""
    spark = published.install(root, version=version, ends=ends, extra="spark")
    log_dir = copy_before("basic-none", tmp_path)
    wanting = spark.run("python", "-c", READ, log_dir, PYSPARK_PYTHON="python3")
    assert "DATA_SOURCE_NOT_FOUND" in wanting.stdout + wanting.stderr
    named = spark.run("python", "-c", READ, log_dir, PYSPARK_PYTHON=str(root / "bin" / "python"))
    assert named.returncode == 0, named.stderr[-4000:]
    assert int(named.stdout.split()[-1]) > 0


def test_a_dg_project_sweeps_by_a_scaffolded_component(
    tmp_path: Path, root: Path, published: Published, version: str, ends: Ends
) -> None:
    """The commands of docs/installing.md, with the attributes that it shows."""
    platform = published.install(root, version=version, ends=ends, extra="dagster")
    release = platform.run("python", "-c", "import dagster; print(dagster.__version__)")
    tools = [f"{name}=={release.stdout.strip()}" for name in ("create-dagster", "dagster-dg-cli")]
    uv("pip", "install", "--python", root / "bin" / "python", *tools, cwd=tmp_path)
    log_dir = copy_before(CASES[0], tmp_path)
    project = tmp_path / "my-project"
    home = tmp_path / "instance"
    home.mkdir()
    inside = {
        "PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(root),
        "DAGSTER_HOME": str(home),
    }
    made = platform.run("create-dagster", "project", project, "--no-uv-sync", **inside)
    assert made.returncode == 0, made.stdout + made.stderr
    sources = ("--python", root / "bin" / "python", "--no-deps", "--editable", project)
    uv("pip", "install", *sources, cwd=tmp_path)

    def dg(*words: str) -> str:
        done = platform.run("dg", *words, where=project, **inside)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return done.stdout + done.stderr

    dg("scaffold", "defs", "LogwrightComponent", "kafka_logs")
    dg("check", "defs")
    component = project / "src" / "my_project" / "defs" / "kafka_logs"
    text = (component / "defs.yaml").read_text()
    (component / "policies").mkdir()
    (component / "policies" / "policies.yml").write_text(POLICY)
    text = text.replace("log_dirs: {}", f"log_dirs: {{broker1: {log_dir}}}")
    text = text.replace("# policies: policies", "policies: policies")
    (component / "defs.yaml").write_text(text)
    dg("check", "defs")
    dg("launch", "--job", "sweep")
    assert list((log_dir / "t-0").glob("*.log.deleted"))
    verified = platform.run("logwright", "verify", log_dir)
    assert verified.returncode == 0, verified.stdout + verified.stderr
