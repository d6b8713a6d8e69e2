"""The code location, configured by the environment."""

from logwright.pipelines.platform import platform_definitions
from logwright.resources.catalogue import platform_resources
from logwright.resources.policies import PolicyDirectory, log_problems

log_problems(PolicyDirectory())

defs = platform_definitions(platform_resources())
