"""A Dagster project of somebody's own that takes logwright's definitions in, run by the Python of a
fresh environment: it sweeps the logs that the environment names, and makes its own asset.

    python project.py DIRECTORY      of the instance
"""

import sys

import dagster as dg

from logwright.pipelines.definitions import defs as logwright_defs
from logwright.pipelines.segments.sweep import sweep_run_config


@dg.asset
def own() -> int:
    """Something of the project's."""
    return 1


defs = dg.Definitions.merge(
    dg.Definitions(assets=[own], jobs=[dg.define_asset_job("own_job", [own])]), logwright_defs
)

if __name__ == "__main__":
    dg.Definitions.validate_loadable(defs)
    quiet = {"loggers": {"console": {"config": {"log_level": "WARNING"}}}}
    with dg.DagsterInstance.local_temp(
        sys.argv[1], overrides={"telemetry": {"enabled": False}}
    ) as instance:
        for name, config in (("sweep", sweep_run_config([])), ("own_job", {})):
            job = defs.resolve_job_def(name)
            done = job.execute_in_process(run_config=config | quiet, instance=instance)
            sys.stdout.write(f"{name} {'green' if done.success else 'red'}\n")
