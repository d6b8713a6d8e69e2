"""The platform as a Dagster component, for a project that `dg` manages.

``dg scaffold defs logwright.pipelines.component.LogwrightComponent kafka_logs`` writes its
``defs.yaml``.
"""

from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from pydantic import BaseModel, Field

from logwright.pipelines.platform import platform_definitions
from logwright.resources.catalogue import platform_resources
from logwright.resources.policies import PolicyDirectory, log_problems
from logwright.resources.spark import Spark

POLICIES = "policies"
"""Directory next to ``defs.yaml`` that the scaffolder makes."""
POLICY_FILE = """\
# Settings of topics, by Kafka's names. `logwright policies check` checks them.
version: 1

# What counts as committed: `checkpoint` as a broker recorded it, or `end`: all of the log.
high_watermark: checkpoint

defaults:
  # The policy of topics that have none below; without one a log is not changed.
  # cleanup.policy: compact

topics: []
#  - name: customers
#    cleanup.policy: compact
#    max.compaction.lag.ms: 172800000
"""


class ScaffoldParams(BaseModel):
    """Options of ``dg scaffold defs``."""

    log_dir: str = Field(
        default="/var/lib/kafka/data", description="A log directory of a stopped broker."
    )


class LogwrightScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes ``defs.yaml`` and a directory of policies."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """Return the model of the options."""
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Effects: writes the files."""
        params = request.params
        policies = request.target_path / POLICIES
        policies.mkdir(parents=True, exist_ok=True)
        (policies / "topics.yml").write_text(POLICY_FILE)
        dg.scaffold_component(request, {"log_dirs": [params.log_dir], "policies": POLICIES})


@dg.scaffold_with(LogwrightScaffolder)
class LogwrightComponent(dg.Component, dg.Model, dg.Resolvable):
    """Maintains log directories of stopped Kafka brokers: compaction, retention, purge, recovery.

    A project has one of it; it may have many log directories.

    Attributes:
        log_dirs: the log directories, each PATH or NAME=PATH.
        policies: directory of the policies, relative to ``defs.yaml``.
        spark_master: a Spark master; local by default.
        spark_settings: more Spark configs.
    """

    log_dirs: Annotated[
        list[str], Field(description="Log directories of stopped brokers, each PATH or NAME=PATH.")
    ]
    policies: Annotated[
        str, Field(description="Directory of the policies, relative to this file.")
    ] = POLICIES
    spark_master: Annotated[
        str | None, Field(description="A Spark master; all cores of the machine by default.")
    ] = None
    spark_settings: Annotated[
        dict[str, Any] | None, Field(description="More Spark configs, by their names.")
    ] = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the platform's definitions, with these log directories and policies."""
        directory = Path(context.path).parent if context.path.is_file() else Path(context.path)
        policies = PolicyDirectory(directory=str(directory / self.policies))
        log_problems(policies)
        settings = {name: str(value) for name, value in (self.spark_settings or {}).items()}
        return platform_definitions(
            platform_resources(
                directories=self.log_dirs,
                policies=policies,
                spark=Spark(master=self.spark_master, settings=settings),
            )
        )
