"""All resources of the platform, by the names that assets and jobs use."""

from typing import Any, Final

from logwright.resources.clock import Clock
from logwright.resources.cluster import ClusterFile
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from logwright.resources.spark import Spark
from logwright.resources.states import sweep_states

SWEEP_STATES: Final = "sweep_states"


def platform_resources(
    *,
    directories: list[str] | None = None,
    policies: PolicyDirectory | None = None,
    clock: Clock | None = None,
    spark: Spark | None = None,
    cluster: ClusterFile | None = None,
) -> dict[str, Any]:
    """Return the resources; values that are not given come from the environment at run time.

    Args:
        directories: the log directories, each ``PATH`` or ``NAME=PATH``.
        policies: the directory of the policies.
        clock: the clock.
        spark: the Spark session.
        cluster: the file of the cluster whose brokers are maintained.
    """
    wanted = policies or PolicyDirectory()
    return {
        "policies": wanted,
        "log_dirs": LogDirs(directories=directories, policies=wanted),
        "clock": clock or Clock(),
        "spark": spark or Spark(),
        "cluster": cluster or ClusterFile(),
        SWEEP_STATES: sweep_states,
    }
