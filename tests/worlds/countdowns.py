"""The countdown of a world, as the platform makes it."""

from __future__ import annotations

from logwright.assets.erasure.deadlines import search_deadlines
from logwright.erasure.outlook.countdown import Countdown
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from tests.worlds.world import NOW_MS, World

_POLICY = """version: 1
defaults: {{cleanup.policy: "{policy}", delete.retention.ms: 1000, retention.ms: -1}}
erasure: {{store: {store}, secret_file: {secret}}}
"""


def count(world: World) -> Countdown:
    """Search the log directories for the stored requests by the function of the asset
    ``deletion_deadlines``. Effects: writes policies; reads the directories.
    """
    policies = world.root / "policies"
    policies.mkdir(exist_ok=True)
    root = world.root
    text = _POLICY.format(policy=world.policy, store=root / "store", secret=root / "secret")
    (policies / "p.yml").write_text(text)
    directories = [f"d{n}={path}" for n, path in enumerate(world.live)]
    return search_deadlines(
        LogDirs(directories=directories, policies=PolicyDirectory(directory=str(policies))),
        PolicyDirectory(directory=str(policies)),
        Clock(fixed_now_ms=NOW_MS),
    ).countdown
