"""The code location as a component of a `dg` project: `dg scaffold defs LogwrightComponent NAME`
writes its ``defs.yaml``.
"""

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import dagster as dg
from pydantic import Field, field_validator

from logwright.pipelines.platform import platform_definitions
from logwright.resources.catalogue import platform_resources
from logwright.resources.cluster import ClusterFile
from logwright.resources.log_dirs import is_url
from logwright.resources.policies import PolicyDirectory, log_problems
from logwright.resources.spark import Spark

ATTRIBUTES: Final = """\
attributes:
  # Name: path of a Kafka log directory, which may be relative to this file, or the URL of one in a
  # bucket: s3://BUCKET/PATH, gs://…, az://…, file:///PATH. Without any,
  # LOGWRIGHT_LOG_DIRS names them, or `log_dirs` in the policies.
  log_dirs: {}  # {broker1: /var/lib/kafka/data, broker2: "{{ env.KAFKA_LOG_DIR }}"}

  # The directory of the YAML files with the settings of topics. Without it: LOGWRIGHT_POLICIES,
  # else the examples in the package.
  # policies: policies

  # `__cluster_metadata-0` and `server.properties` of the cluster, each PATH or LOG_DIR=PATH.
  # metadata: [/var/lib/kafka/data/__cluster_metadata-0]
  # server_properties: [/etc/kafka/server.properties]

  # The file of a cluster whose brokers are maintained while it runs, one after another.
  # cluster: cluster.yml

  # The Spark session of a sweep.
  # spark: {master: "local[*]", driver_memory: 1g, settings: {spark.sql.shuffle.partitions: "8"}}

  # For all assets.
  # group_name: kafka_logs
  # owners: [team:kafka]
  # tags: {domain: kafka}

  # Sensors and schedules that run from the start; any can be switched in the UI.
  # running: [discovery, due_logs, purge_due, retention_check, fleet_report]
"""


class LogwrightScaffolder(dg.Scaffolder):
    """Writes a ``defs.yaml`` that loads as it is, with examples of all attributes."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Write the file. Effects: creates it; for Python, a ``component.py``."""
        if request.scaffold_format != "yaml":
            dg.scaffold_component(request)
            return
        text = f"type: {request.type_name}\n\n{ATTRIBUTES}"
        append = getattr(request, "append", False)
        with (request.target_path / "defs.yaml").open("a" if append else "w") as file:
            file.write(f"---\n{text}" if append else text)


class SparkModel(dg.Model, dg.Resolvable):
    """The Spark session, as `logwright.resources.spark.Spark` takes it.

    Attributes:
        master: a Spark master.
        remote: a Connect server; overrides `master`.
        driver_memory: heap size of the driver.
        settings: more Spark configs.
    """

    master: str | None = None
    remote: str | None = None
    driver_memory: str = "1g"
    settings: dict[str, str] = Field(default_factory=dict)


@dg.scaffold_with(LogwrightScaffolder)
class LogwrightComponent(dg.Component, dg.Model, dg.Resolvable):
    """Maintenance of Kafka's log directories: assets, checks, jobs, sensors and schedules.

    The keys of the assets and the names of jobs, sensors and schedules are fixed, so a project has
    one such component; it can have any number of log directories.

    Attributes:
        log_dirs: name → path, or URL of a log directory in a bucket; paths are absolute or
            relative to the component's directory. Empty:
            as for `logwright.resources.log_dirs.LogDirs`.
        policies: the directory of the policies, likewise.
        metadata, server_properties: as for `logwright.resources.policies.PolicyDirectory`.
        cluster: the file of a cluster whose brokers are maintained while it runs, likewise.
        spark: the Spark session.
        group_name: the group of all assets.
        owners: added to all assets: ``team:NAME`` or e-mail addresses.
        tags: added to all assets.
        running: the sensors and schedules that run from the start; without it, those whose own
            default says so.
    """

    log_dirs: dict[str, str] = Field(default_factory=dict)
    policies: str | None = None
    metadata: list[str] | None = None
    server_properties: list[str] | None = None
    cluster: str | None = None
    spark: SparkModel = Field(default_factory=SparkModel)
    group_name: str | None = None
    owners: list[str] = Field(default_factory=list)
    tags: dict[str, str] = Field(default_factory=dict)
    running: list[str] | None = None

    @field_validator("log_dirs")
    @classmethod
    def _names_fit_keys(cls, log_dirs: dict[str, str]) -> dict[str, str]:
        for name in log_dirs:
            if not name.strip() or any(mark in name for mark in ":=,"):
                raise ValueError(
                    f"log_dirs: the name {name!r} is empty or has one of ':', '=' and ','. It is"
                    " part of partition keys: name:topic-partition."
                )
        return log_dirs

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions with these attributes.

        Raises:
            ValueError: a directory does not exist; `running` has an unknown name.
        """
        return self.definitions_in(context.path)

    def definitions_in(self, directory: Path) -> dg.Definitions:
        """Return the definitions; relative paths are below `directory`. Raises as `build_defs`."""
        log_dirs = {
            name: where if is_url(where) else str(_path(directory, "log_dirs", where))
            for name, where in self.log_dirs.items()
        }
        policies = None if self.policies is None else _path(directory, "policies", self.policies)
        wanted = PolicyDirectory(
            directory=None if policies is None else str(policies),
            metadata=self.metadata,
            server_properties=self.server_properties,
        )
        log_problems(wanted)
        cluster = None if self.cluster is None else str((directory / self.cluster).absolute())
        made = platform_definitions(
            platform_resources(
                directories=[f"{name}={where}" for name, where in log_dirs.items()] or None,
                policies=wanted,
                spark=Spark(**self.spark.model_dump()),
                cluster=ClusterFile(file=cluster),
            )
        )
        _check_names(self.running or (), made)
        return dg.Definitions(
            assets=dg.map_asset_specs(self._described, _assets(made)),
            asset_checks=made.asset_checks,
            jobs=made.jobs,
            sensors=self._started(made.sensors or (), dg.DefaultSensorStatus),
            schedules=self._started(made.schedules or (), dg.DefaultScheduleStatus),
            resources=made.resources,
            executor=made.executor,
        )

    def _described(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        described = spec.replace_attributes(
            owners=[*spec.owners, *self.owners], tags={**spec.tags, **self.tags}
        )
        return (
            described.replace_attributes(group_name=self.group_name)
            if self.group_name
            else described
        )

    def _started(self, definitions: Iterable[Any], status: type[Any]) -> list[Any]:
        """Return copies of sensors or schedules with the status that `running` asks for."""
        if self.running is None:
            return list(definitions)
        changed = []
        for definition in map(copy.copy, definitions):
            wanted = status.RUNNING if definition.name in self.running else status.STOPPED
            definition._default_status = wanted  # noqa: SLF001 - Dagster has no public way to copy it so
            changed.append(definition)
        return changed


def _assets(made: dg.Definitions) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    kinds = dg.AssetsDefinition | dg.AssetSpec
    return [one for one in made.assets or () if isinstance(one, kinds)]


def _check_names(running: Iterable[str], made: dg.Definitions) -> None:
    known = {one.name for one in (*(made.sensors or ()), *(made.schedules or ()))}
    unknown = sorted(set(running) - known)
    if unknown:
        raise ValueError(
            f"running: {', '.join(unknown)}: neither a sensor nor a schedule. There are"
            f" {', '.join(sorted(known))}."
        )


def _path(directory: Path, attribute: str, text: str) -> Path:
    path = (directory / text).absolute()
    if not path.is_dir():
        raise ValueError(f"{attribute}: {path} is not a directory.")
    return path
