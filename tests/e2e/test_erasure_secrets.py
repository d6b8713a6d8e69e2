"""No key and no value in anything that a search for a person leaves: what commands say, the
certificate and its page, the stored requests, Dagster's storage, the fleet page.
"""

from __future__ import annotations

import csv
from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.erasure.deadlines import deletion_deadlines
from logwright.assets.fleet.inventory import fleet_inventory
from logwright.assets.fleet.page import fleet_page
from logwright.assets.history import maintenance_history
from logwright.pipelines.erasure.deadlines import ERASURE
from logwright.pipelines.erasure.erase import ERASE
from logwright.pipelines.platform import platform_definitions
from tests.e2e.command import call
from tests.e2e.harness import MARKS, QUIET, Platform, new_instance
from tests.e2e.test_secrets import NOW_MS, SECRETS, forms, leaks, plant
from tests.erasure_platform import everything, prove_privacy
from tests.erasure_proof import plant as plant_many

pytestmark = MARKS

KEYS = SECRETS[:10]
DAY_MS = 86_400_000


def planted(directory: Path) -> list[tuple[str, str]]:
    """(File, form) of every secret that is found below a directory."""
    return [
        (str(path), form)
        for path, content in everything(directory)
        for secret in SECRETS
        for form in forms(secret)
        if form.encode() in content
    ]


def secret_file(path: Path) -> Path:
    path.write_text("0123456789abcdef" * 4)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_certificate(tmp_path: Path, form: str) -> None:
    """Neither the files nor what the commands say, also if a line of the keys is malformed."""
    log_dir = plant(tmp_path / "logs")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/keys").write_text("".join(f"{key}\n" for key in KEYS))
    (tmp_path / "out").mkdir()
    signing, out = tmp_path / "out/key", tmp_path / "out/c.json"
    words = (
        *("--keys", tmp_path / "in/keys", "--signing-key", signing, "--out", out),
        *("--secret", secret_file(tmp_path / "secret"), "--now", NOW_MS, "--output", form),
    )
    public = ("--public-key", f"{signing}.pub", "--output", form)
    answers = [
        call("certificate", "--new-key", signing, "--output", form),
        call("certificate", log_dir, *words),
        call("verify-certificate", out, *public, log_dir),
    ]
    assert [0, 6, 0] == [one.status for one in answers], [one.err for one in answers]
    answers.append(call("certificate", log_dir, *words, "--keys-format", "base64"))
    assert 2 == answers[-1].status
    assert [] == [leak for one in answers for leak in leaks(one)]
    assert [] == planted(tmp_path / "out")
    assert planted(tmp_path / "in"), "the search would find them"


def platform_of(tmp_path: Path) -> Platform:
    """A platform with the planted log and a landing directory of requests for its keys."""
    log_dir = plant(tmp_path / "kafka-logs")
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    (tmp_path / "landing").mkdir()
    with (tmp_path / "landing/requests.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "topics", "key", "received_at", "deadline"])
        rows.writerows(
            [f"r{number}", "t", key, NOW_MS - 1, NOW_MS + DAY_MS] for number, key in enumerate(KEYS)
        )
        rows.writerow(["bad", "t", KEYS[0], "yesterday", NOW_MS])
        rows.writerow([SECRETS[11], "t", KEYS[1], NOW_MS, NOW_MS])
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "p.yml").write_text(f"""\
version: 1
high_watermark: end
defaults: {{cleanup.policy: compact, segment.ms: 9000000000000}}
erasure:
  landing: {tmp_path / "landing"}
  store: {tmp_path / "store"}
  secret_file: {secret_file(tmp_path / "secret")}
""")
    home = tmp_path / "dagster"
    return Platform(
        log_dir=log_dir,
        policies=policies,
        home=home,
        instance=new_instance(home),
        now_ms=NOW_MS,
    )


@pytest.mark.rotates(4)
def test_the_platform(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Dagster's storage and logs, the stored requests, the countdown and the fleet page; the rows
    that are refused hold a secret, too.
    """
    platform = platform_of(tmp_path)
    defs = platform_definitions(platform.resources())
    for name in (ERASURE, "sweep"):
        job = defs.get_job_def(name)
        assert job.execute_in_process(run_config=QUIET, instance=platform.instance).success
    for config in ({}, {"now_and_for_good": True}):
        done = defs.get_job_def(ERASE).execute_in_process(
            run_config=QUIET | {"ops": {"find_records": {"config": config}}},
            instance=platform.instance,
            raise_on_error=False,
        )
        assert bool(config) == done.success
    reported = dg.materialize(
        [fleet_inventory, maintenance_history, fleet_page, deletion_deadlines],
        instance=platform.instance,
        resources=platform.at(NOW_MS + 2 * DAY_MS).resources(),
    )
    assert reported.success
    captured = capfd.readouterr()
    assert [] == [
        form for secret in SECRETS for form in forms(secret) if form in captured.out + captured.err
    ]
    assert [] == planted(platform.home)
    assert [] == planted(tmp_path / "store")
    page = platform.home / "storage/fleet_page/index.html"
    assert "Deadlines of erasure requests" in page.read_text()
    assert planted(tmp_path / "landing"), "the search would find them"


@pytest.mark.nightly
def test_many_requests(tmp_path: Path, seed: int) -> None:
    """Of 10,000 keys none is in anything that the platform leaves."""
    world = plant_many(tmp_path / "world", records=500_000, keys=10_000, seed=seed)
    (line,) = prove_privacy(world)
    assert line.startswith("no key in ")
