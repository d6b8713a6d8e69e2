"""Find, the end of an erasure, certificates, the countdown and the checks say the same dates."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from logwright.assets.erasure.deadlines import search_deadlines
from logwright.assets.erasure.report import IN_TIME, deadline_checks
from logwright.erasure.form_of import form_of
from logwright.erasure.outlook.countdown import NEVER
from logwright.erasure.request import Request
from logwright.erasure.secret import load_secret
from logwright.erasure.store import write_store
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from tests.e2e.command import call
from tests.log_builder import START_MS
from tests.maintained import SECOND_MS, draw_log, draw_settings
from tests.unit.cli.test_find import SECRET_KEYS, build

LOGS, NIGHTLY_LOGS = 6, 100
SEEDS = 1_000
NOW_MS = START_MS + 60 * SECOND_MS
PERSONS = (b"planted-alice", b"planted-bob")
Dates = Counter[tuple[str, str, int | None]]
"""File, rule and date → number of records."""


def prepare(tmp_path: Path, draw: random.Random) -> list[str | Path]:
    """A log, its policies, a store of requests; the words of a command that say so."""
    draw_log(tmp_path / "logs", draw)
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef" * 4)
    secret.chmod(0o600)
    known = load_secret(secret, None)
    deadline_ms = NOW_MS + draw.choice((400, 900, 3_000)) * SECOND_MS
    requests = [
        Request(
            id=f"r{number}",
            topics="t",
            hmac=known.hmac(key),
            filter=known.filter(key),
            received_at_ms=0,
            deadline_ms=deadline_ms,
            forms=form_of(key, known).hmacs,
        )
        for number, key in enumerate(PERSONS)
    ]
    write_store(tmp_path / "store", requests, known)
    pairs = draw_settings(draw, draw.choice(("compact", "compact", "compact,delete", "delete")))
    erasure = {
        "store": str(tmp_path / "store"),
        "secret_file": str(secret),
        "margin_ms": 20 * SECOND_MS,
        "appends_continue": draw.random() < 0.3,
        "deadline_sweeps": draw.random() < 0.7,
    }
    policies = tmp_path / "policies"
    policies.mkdir()
    # Policies that do not say it leave it to the command line and to Dagster, which differ.
    committed = draw.choice(("end", "checkpoint"))
    document = {"version": 1, "high_watermark": committed, "defaults": pairs, "erasure": erasure}
    (policies / "p.yml").write_text(json.dumps(document))
    return ["--policies", policies, "--requests", tmp_path / "store", "--secret", secret]


def by_find(tmp_path: Path, words: list[str | Path]) -> Dates:
    """What `find` says."""
    answer = call("find", tmp_path / "logs", *words, "--now", NOW_MS, "--output", "json")
    rows = [line for line in answer.lines if "kind" in line]
    return Counter((row["path"], row["rule"], row["goneByMs"]) for row in rows)


def by_erase(tmp_path: Path, words: list[str | Path]) -> Dates:
    """What `erase` says of what it has left. Effects: erases by the rules."""
    more = ("--yes", "--now", NOW_MS, "--output", "json")
    answer = call("erase", tmp_path / "logs", *words, *more)
    assert answer.status in (0, 8), answer.err
    dates = Dates()
    for line in answer.lines:
        if "left" in line:
            dates[line["left"], line["rule"], line["goneByMs"]] += line["records"]
    return dates


def by_certificate(tmp_path: Path, words: list[str | Path]) -> Dates:
    """What a certificate says."""
    key, out = tmp_path / "sign.pem", tmp_path / "certificate.json"
    call("certificate", "--new-key", key)
    more = ("--signing-key", key, "--out", out, "--now", NOW_MS)
    answer = call("certificate", tmp_path / "logs", *words, *more)
    assert out.exists(), answer.err
    rows = json.loads(out.read_text())["certificate"]["remains"]
    return Counter((row["path"]["text"], row["rule"], row["gone_by_ms"]) for row in rows)


def judge(tmp_path: Path, seed: int) -> set[str]:
    """Erase by the rules, and ask all of them; return the rules that were named with a date."""
    words = prepare(tmp_path, random.Random(seed))
    dates = by_erase(tmp_path, words)
    assert dates == by_find(tmp_path, words), seed
    assert dates == by_certificate(tmp_path, words), seed
    policies = PolicyDirectory(directory=str(tmp_path / "policies"))
    log_dirs = LogDirs(directories=[f"d={tmp_path / 'logs'}"], policies=policies)
    countdown, pages = search_deadlines(log_dirs, policies, Clock(fixed_now_ms=NOW_MS))
    times = [time for _, _, time in dates]
    last = NEVER if None in times else max((time for time in times if time is not None), default=0)
    assert ([last] if dates else []) == [row.gone_by_ms for row in countdown.logs], seed
    shown = {left.gone_by_ms for page in pages for left in page.left}
    assert not dates or {None if last == NEVER else last} <= shown, seed
    deadline_ms = min((row.next_deadline_ms for row in countdown.topics), default=0)
    late = any(time is None or time > deadline_ms for time in times)
    (in_time,) = [one for one in deadline_checks(countdown) if one.check_name == IN_TIME]
    assert late is not in_time.passed, seed
    return {rule for _, rule, time in dates if time is not None}


def judge_many(tmp_path: Path, seed: int, count: int) -> set[str]:
    """Ask of this number of random logs; the rules that were named with a date."""
    rules: set[str] = set()
    for number in range(seed * SEEDS, seed * SEEDS + count):
        place = tmp_path / str(number)
        place.mkdir()
        rules |= judge(place, number)
        shutil.rmtree(place)
    return rules


def test_all_say_the_same_dates(tmp_path: Path, seed: int) -> None:
    """After an erasure by the rules, of records, tombstones and retired files."""
    assert judge_many(tmp_path, seed, LOGS)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_all_say_the_same_dates_of_many_logs(tmp_path: Path, seed: int) -> None:
    """The same, and both rules that a date may come from are among them."""
    rules = judge_many(tmp_path, seed, NIGHTLY_LOGS)
    assert {"deadline sweep", "file.delete.delay.ms"} <= rules


@pytest.mark.parametrize("lag_hours", [0, 48])
def test_an_erasure_and_a_search_say_the_same(tmp_path: Path, lag_hours: int) -> None:
    """Also of tombstones without a delete horizon, in a log whose cleanings the lag holds back."""
    build(tmp_path / "logs", "t-0", 0)
    (tmp_path / "keys").write_bytes(b"\n".join(SECRET_KEYS))
    settings = {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": str(lag_hours * 3_600_000),
        "delete.retention.ms": "3600000",
    }
    words: list[str | Path] = ["--keys", tmp_path / "keys"]
    for name, value in settings.items():
        words += ["--config", f"{name}={value}"]
    dates = by_erase(tmp_path, words)
    assert dates == by_find(tmp_path, words)
    rows = [row for row in dates if row[1] == "delete.retention.ms"]
    assert {None} == {time for _, _, time in rows}
    texts = [
        call(command, tmp_path / "logs", *words, "--now", NOW_MS, *more).out
        for command, more in (("erase", ("--yes",)), ("find", ()))
    ]
    assert all("no later cleaning is foreseen" in text for text in texts)
