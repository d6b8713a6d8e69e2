"""The component as a project of `dg` loads it."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

from logwright.pipelines.component import LogwrightComponent, LogwrightScaffolder, ScaffoldParams
from logwright.pipelines.sweep import sweep_run_config
from tests.e2e.harness import MARKS, POLICY, QUIET, make_platform

pytestmark = MARKS


def test_a_scaffolded_component_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log directories and policies are those of its files, whatever the environment says."""
    platform = make_platform(tmp_path, {"orders-0": "basic-none"})
    monkeypatch.setenv("LOGWRIGHT_LOG_DIRS", "/nowhere")
    monkeypatch.setenv("LOGWRIGHT_NOW_MS", str(platform.now_ms))
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=LogwrightComponent,
            scaffold_params=ScaffoldParams(log_dir=str(platform.log_dir)).model_dump(),
        )
        written = yaml.safe_load((path / "defs.yaml").read_text())["attributes"]
        assert {"log_dirs": [str(platform.log_dir)], "policies": "policies"} == written
        (path / "policies" / "topics.yml").write_text(POLICY)
        with sandbox.load_component_and_build_defs(defs_path=path) as (component, defs):
            assert isinstance(component, LogwrightComponent)
            dg.Definitions.validate_loadable(defs)
            done = defs.resolve_job_def("sweep").execute_in_process(
                run_config=sweep_run_config([]) | QUIET, instance=platform.instance
            )
    assert done.success
    assert {"orders-0"} == platform.materialized()


def test_the_scaffolder_has_the_options_of_the_command() -> None:
    """`dg scaffold defs … --log-dir`."""
    assert ScaffoldParams is LogwrightScaffolder.get_scaffold_params()
    assert ["log_dir"] == list(ScaffoldParams.model_fields)
