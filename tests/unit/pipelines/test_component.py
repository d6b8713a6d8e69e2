"""The component: what its attributes change, and what it refuses in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from logwright.pipelines.component import ATTRIBUTES, LogwrightComponent
from logwright.pipelines.definitions import defs
from logwright.resources.log_dirs import LogDirs

pytestmark = pytest.mark.filterwarnings("ignore:::dagster.*")


def test_attributes_reach_the_definitions(tmp_path: Path) -> None:
    """Directories by name and relative path; group, owners and tags of every asset."""
    (tmp_path / "logs").mkdir()
    component = LogwrightComponent(
        log_dirs={"broker1": "logs", "archive": "s3://archive/b"},
        group_name="maintenance",
        owners=["team:kafka"],
        tags={"domain": "kafka"},
        running=["due_logs", "retention_check"],
    )
    made = component.definitions_in(tmp_path)
    dg.Definitions.validate_loadable(made)
    log_dirs = (made.resources or {})["log_dirs"]
    assert isinstance(log_dirs, LogDirs)
    here = f"broker1={tmp_path / 'logs'}"
    assert log_dirs.directories == [here, "archive=s3://archive/b"]
    specs = list(made.resolve_all_asset_specs())
    own = {spec.key: spec for spec in defs.resolve_all_asset_specs()}
    assert {spec.key for spec in specs} == own.keys()
    for spec in specs:
        assert spec.group_name == "maintenance"
        assert spec.owners == ["team:kafka"]
        assert spec.tags == own[spec.key].tags | {"domain": "kafka"}
    started = {one.name for one in made.sensors or () if one.default_status.value == "RUNNING"}
    started |= {one.name for one in made.schedules or () if one.default_status.value == "RUNNING"}
    assert started == {"due_logs", "retention_check"}


def test_without_attributes_it_is_the_code_location(tmp_path: Path) -> None:
    """As `logwright.pipelines.definitions` has it, and the shared definitions stay as they are."""
    LogwrightComponent(running=[]).definitions_in(tmp_path)
    made = LogwrightComponent().definitions_in(tmp_path)
    for mine, own in ((made.sensors, defs.sensors), (made.schedules, defs.schedules)):
        statuses = {one.name: one.default_status for one in mine or ()}
        assert statuses == {one.name: one.default_status for one in own or ()}


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"log_dirs": {"a:b": "/x"}}, "the name 'a:b' is empty or has one of"),
        ({"log_dirs": {"a": "nowhere"}}, "log_dirs: .*nowhere is not a directory"),
        ({"policies": "nowhere"}, "policies: .*nowhere is not a directory"),
        ({"running": ["due_log"]}, "running: due_log: neither a sensor nor a schedule. .*due_logs"),
        ({"log_dir": {}}, "Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_named(
    attributes: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    """The attribute, and what it may be."""
    with pytest.raises(ValueError, match=sentence):
        LogwrightComponent.model_validate(attributes).definitions_in(tmp_path)


def test_broken_policies_are_logged_when_it_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As by the code location: it loads, and says what is wrong and where."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/policies.yml").write_text("version: 1\ndefauls: {}\n")
    LogwrightComponent(policies="policies").definitions_in(tmp_path)
    assert "policies.yml:2:1" in caplog.text
    assert "defaults" in caplog.text


def test_every_attribute_is_in_the_scaffolded_file() -> None:
    """The file loads as it is, and with each example in use."""
    assert yaml.safe_load(ATTRIBUTES) == {"attributes": {"log_dirs": {}}}
    assert all(f" {name}: " in ATTRIBUTES for name in LogwrightComponent.model_fields)


READS = """
import sys
from pathlib import Path
from logwright.pipelines.component import LogwrightComponent

directory, reads = Path(sys.argv[1]), []
below = str(directory / "logs")

def hook(event, arguments):
    if event in ("open", "os.listdir", "os.scandir"):
        path = str(arguments[0])
        if path.startswith((below, str(directory / "policies"))):
            reads.append(path)

sys.addaudithook(hook)
LogwrightComponent(log_dirs={"a": "logs"}, policies="policies").definitions_in(directory)
print(*sorted(path.removeprefix(str(directory)) for path in set(reads)))
"""


def test_loading_reads_the_policies_and_no_log_directory(tmp_path: Path) -> None:
    """What there is in the log directories is in Dagster's partitions, which `discovery` keeps."""
    (tmp_path / "logs/orders-0").mkdir(parents=True)
    (tmp_path / "logs/__cluster_metadata-0").mkdir()
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/p.yml").write_text("version: 1\n")
    done = subprocess.run(
        [sys.executable, "-c", READS, tmp_path], capture_output=True, text=True, check=True
    )
    reads = done.stdout.split()
    assert "/policies/p.yml" in reads
    assert [] == [path for path in reads if path.startswith("/logs")]
