"""All resources of the platform, by the names that assets and jobs use."""

from typing import Any, Final

from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from logwright.resources.spark import Spark
from logwright.resources.states import SweepStates

SWEEP_STATES: Final = "sweep_states"


def platform_resources(
    *,
    directories: list[str] | None = None,
    policies: PolicyDirectory | None = None,
    clock: Clock | None = None,
    spark: Spark | None = None,
) -> dict[str, Any]:
    """Return the resources; values that are not given come from the environment at run time.

    Args:
        directories: the log directories, each ``PATH`` or ``NAME=PATH``.
        policies: the directory of the policies.
        clock: the clock.
        spark: the Spark session.
    """
    wanted = policies or PolicyDirectory()
    log_dirs = LogDirs(directories=directories, policies=wanted)
    wanted_clock = clock or Clock()
    return {
        "policies": wanted,
        "log_dirs": log_dirs,
        "clock": wanted_clock,
        "spark": spark or Spark(),
        SWEEP_STATES: SweepStates(log_dirs=log_dirs, policies=wanted, clock=wanted_clock),
    }
