"""What the catalogue and the list of jobs show of the platform before anything has run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from logwright.pipelines.described import HOURLY_ASSETS, PART, RECORDS
from logwright.pipelines.platform import platform_definitions
from logwright.records import schema
from logwright.resources.catalogue import platform_resources
from logwright.resources.policies import PolicyDirectory
from tests.e2e.test_erasure_secrets import secret_file

pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")

POLICY = """\
version: 1
topics:
  - name: customers
    owner: crm
    tags: [pii, "with a blank"]
    table: {{format: parquet, path: "{table}"}}
erasure: {{store: {store}, secret_file: {secret}, owner: privacy@example.com}}
"""


@pytest.fixture(name="defs")
def _defs(tmp_path: Path) -> dg.Definitions:
    """A platform with a table and with erasure requests."""
    (tmp_path / "policies").mkdir()
    secret = secret_file(tmp_path / "secret")
    (tmp_path / "policies/p.yml").write_text(
        POLICY.format(table=tmp_path / "table", store=tmp_path / "store", secret=secret)
    )
    policies = PolicyDirectory(directory=str(tmp_path / "policies"))
    policies.load()
    return platform_definitions(platform_resources(policies=policies))


def specs(defs: dg.Definitions) -> dict[str, dg.AssetSpec]:
    """The specs of all assets, by their key."""
    return {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}


def test_every_job_has_a_name_that_is_ours(defs: dg.Definitions) -> None:
    """Of the schedules and sensors, too: Dagster names the job of a target that has none."""
    repository = defs.get_repository_def()
    names = {job.name for job in repository.get_all_jobs()}
    assert [] == [name for name in names if "anonymous" in name]
    assert {"discover", "sweep_range", "purge_range", "fleet"} <= names


def test_every_asset_has_what_the_catalogue_shows(defs: dg.Definitions) -> None:
    """A description, a group, kinds and tags; what is made each hour has a freshness policy."""
    shown = specs(defs)
    assert len(shown) == len(HOURLY_ASSETS) + 8
    for name, spec in shown.items():
        assert spec.description, name
        assert spec.group_name in {"kafka_logs", "latest_state"}, name
        assert "kafka" in spec.kinds, name
        assert {"domain", PART} <= spec.tags.keys(), name
        assert (spec.freshness_policy is not None) == (spec.key in HOURLY_ASSETS), name


def test_a_table_has_the_owner_and_the_tags_of_its_topic(defs: dg.Definitions) -> None:
    """A team in Dagster's form; a tag that Dagster does not accept is not one."""
    table = specs(defs)["latest_state/customers"]
    assert ["team:crm"] == list(table.owners)
    assert "pii" in table.tags
    assert "with a blank" not in table.tags


def test_erasure_requests_have_the_owner_of_the_policies(defs: dg.Definitions) -> None:
    """Their deadlines, too."""
    shown = specs(defs)
    names = ("erasure_requests", "deletion_deadlines", "deletion_deadline")
    owners = [list(shown[f"kafka_logs/{name}"].owners) for name in names]
    assert [["privacy@example.com"]] * 3 == owners


def test_every_column_of_the_inventory_is_described(defs: dg.Definitions) -> None:
    """In the catalogue."""
    schema = specs(defs)["kafka_logs/fleet_inventory"].metadata["dagster/column_schema"]
    assert [] == [one.name for one in schema.columns if not one.description]


def test_the_records_of_a_log_have_columns(defs: dg.Definitions) -> None:
    """Those of the format `kafka-log`, which the column lineage of a table names."""
    shown = specs(defs)["kafka_logs/segment_set"].metadata["dagster/column_schema"]
    columns = {column.name: column.type for column in shown.columns}
    assert {field.name: str(field.type) for field in schema.RECORDS} == columns
    assert all(column.description for column in shown.columns)
    assert columns.keys() == RECORDS.keys()


def test_loading_warns_of_nothing() -> None:
    """A sensor is started without a word of what is new in Dagster."""
    script = "from logwright.pipelines.definitions import defs\ndefs.get_repository_def()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "" == done.stderr
