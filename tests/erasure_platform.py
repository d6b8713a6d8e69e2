"""The platform with the requests of an erasure's proof: nothing that its runs leave has a key."""

from __future__ import annotations

import csv
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import dagster as dg

from logwright.assets.erasure.deadlines import deletion_deadlines
from logwright.assets.erasure.report import MET
from logwright.assets.fleet.inventory import fleet_inventory
from logwright.assets.fleet.page import fleet_page
from logwright.assets.history import maintenance_history
from logwright.pipelines.erasure.deadlines import ERASURE
from logwright.pipelines.platform import platform_definitions
from tests.e2e.harness import QUIET, Platform, new_instance
from tests.erasure_proof import DAY_MS, World

FORMS = re.compile(
    rb"secret-[0-9a-f]{32}|7365637265742d[0-9a-f]{64}|c2VjcmV0L[A-Za-z0-9+/_-]{43}", re.IGNORECASE
)
"""A planted key as text, in hexadecimal and in base64; values have it after "of "."""
POLICIES = """version: 1
high_watermark: end
topics:
  - pattern: ".*"
    cleanup.policy: compact
erasure:
  landing: {root}/landing
  store: {root}/store
  secret_file: {root}/secret
"""


def platform_of(world: World) -> Platform:
    """A platform with the logs, and a landing directory with requests for all keys. Effects: writes
    below the world's root.
    """
    root = world.root
    (root / "landing").mkdir()
    with (root / "landing/requests.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "topics", "key", "received_at", "deadline"])
        rows.writerows(
            [f"r{number}", "regex:.*", key.decode(), world.now_ms - 1, world.now_ms + DAY_MS]
            for number, key in enumerate(sorted(world.planted))
        )
    (root / "platform").mkdir()
    (root / "platform/topics.yml").write_text(POLICIES.format(root=root))
    home = root / "dagster"
    return Platform(
        log_dir=world.logs,
        policies=root / "platform",
        home=home,
        instance=new_instance(home),
        now_ms=world.now_ms,
    )


def prove_privacy(world: World) -> Iterator[str]:
    """Store the requests, search, sweep, report; then search all that this has left. Yields what
    happened.
    """
    platform = platform_of(world)
    defs = platform_definitions(platform.resources())
    for name in (ERASURE, "sweep"):
        job = defs.get_job_def(name)
        assert job.execute_in_process(run_config=QUIET, instance=platform.instance).success
    reported = dg.materialize(
        [fleet_inventory, maintenance_history, fleet_page, deletion_deadlines],
        instance=platform.instance,
        resources=platform.at(world.now_ms + 2 * DAY_MS).resources(),
        raise_on_error=False,
    )
    failed = {each.check_name for each in reported.get_asset_check_evaluations() if not each.passed}
    assert MET in failed, "records that are alive remain, and the deadline is over"
    assert FORMS.search((world.root / "landing/requests.csv").read_bytes())
    files = 0
    for place in (platform.home, world.root / "store", platform.policies):
        for path, content in everything(place):
            files += 1
            assert FORMS.search(content) is None, path
    yield f"no key in {files} files that the platform has left, Dagster's storage among them"


def everything(directory: Path) -> Iterator[tuple[Path, bytes]]:
    """The bytes of every file below a directory; of a database also its values as text, which its
    pages may split.
    """
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            yield path, content
            if content.startswith(b"SQLite format 3"):
                with closing(sqlite3.connect(path)) as database:
                    yield path, "\n".join(database.iterdump()).encode()
