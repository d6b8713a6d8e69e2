"""One call or more of each command, and the extra that it needs; run where some extras are not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from logwright.extras import MissingExtra
from tests.fixtures import copy_before
from tests.packaging.environments import Environment

CASE = "basic-none"
COMPACT = ("--config", "cleanup.policy=compact")
INCLUDED = {
    "dagster": frozenset({"spark", "tables", "erasure", "metrics", "tier"}),
    "erasure": frozenset({"tier"}),
}
"""Extra → others that are installed with it."""

TRACEBACK = 1
"""Python's exit status then."""

OTHER_STATUSES = frozenset(range(12)) - {TRACEBACK}


class Call(NamedTuple):
    """A call.

    Attributes:
        words: the command and its arguments; a name in braces is a path.
        extra: that it needs; empty: none.
    """

    words: str
    extra: str = ""


CALLS = (
    Call("inspect {log_dir}"),
    Call("inspect tier:{other} --tier-key {keys}", "tier"),
    Call("dump {log_dir} t-0 --indexes"),
    Call("dump {log_dir} t-0 --decode"),
    Call("dump {log_dir} t-0 --decode=json", "tables"),
    Call("dump {log_dir} t-0 --decode=string", "tables"),
    Call("config {log_dir}"),
    Call("policies check {policies}"),
    Call("plan {log_dir} --config cleanup.policy=compact"),
    Call("clean {log_dir} --yes --config cleanup.policy=compact"),
    Call("clean {log_dir} --engine spark --yes --config cleanup.policy=compact", "spark"),
    Call("roll {log_dir} --yes"),
    Call("retain {log_dir} --yes --config cleanup.policy=delete"),
    Call("delete {log_dir} t-0 --yes"),
    Call("undo {log_dir} t-0 --yes"),
    Call("recover {log_dir} --yes"),
    Call("offsets {log_dir}"),
    Call("doctor {log_dir}"),
    Call("quorum {log_dir}"),
    Call("rescue {log_dir} --free 1 --yes"),
    Call("rescue {log_dir} --yes"),
    Call("verify {log_dir}"),
    Call("audit {log_dir} {other}"),
    Call("ingest {log_dir} --from {rows} --topic t --yes", "spark"),
    Call("archive {log_dir} --bootstrap localhost:1 --topic t --yes", "archive"),
    Call("upload {log_dir} --to file://{out}", "bucket"),
    Call("download file://{other} --to {out}", "bucket"),
    Call("latest {log_dir} t --to {out}", "tables"),
    Call("latest {log_dir} t --to {out} --format iceberg", "tables"),
    Call("find {log_dir} --topic t --keys {keys}"),
    Call("find {log_dir} --topic t --keys {keys} --table {table}", "tables"),
    Call(
        "certificate {log_dir} --topic t --keys {keys} --signing-key {keys} --out {out}", "erasure"
    ),
    Call("verify-certificate {rows} --public-key {keys}", "erasure"),
    Call("purge {log_dir} --yes"),
    Call("maintain {log_dir} --yes --config cleanup.policy=compact"),
    Call("erase {log_dir} --topic t --keys {keys} --yes", "spark"),
    Call("erase {log_dir} --topic t --keys {keys} --now-and-for-good --yes"),
    Call("move {log_dir} t-0 --to {other} --yes"),
    Call("metrics {log_dir}", "metrics"),
    Call("pause {log_dir} t-0 --yes"),
    Call("resume {log_dir} t-0 --yes"),
    Call("quarantine {log_dir}"),
    Call("rolling {keys} --yes", "archive"),
    Call("demo --no-ui --home {home}", "dagster"),
)


def places(work: Path) -> dict[str, Path]:
    """A log directory and what else the calls name. Effects: writes below a new directory."""
    work.mkdir()
    log_dir = copy_before(CASE, work)
    directories = {
        name: work / name for name in ("other", "rows", "table", "policies", "out", "home")
    }
    for name in ("other", "rows", "table", "policies"):
        directories[name].mkdir()
    (directories["rows"] / "a.jsonl").write_text('{"key": "a", "value": "b"}\n')
    (directories["table"] / "a.parquet").write_bytes(b"PAR1 not a table PAR1")
    (directories["policies"] / "p.yml").write_text("version: 1\n")
    keys = work / "keys"
    keys.write_text("alice\n")
    return {**directories, "log_dir": log_dir, "keys": keys}


def faults(
    environment: Environment,
    work: Path,
    extras: frozenset[str],
    calls: Sequence[Call] = CALLS,
) -> list[str]:
    """Run the calls; those that end in a traceback, that miss an extra which is there, or that do
    not name the one which is not, with the command that installs it.
    """
    wrong = []
    work.mkdir()
    for number, call in enumerate(calls):
        paths = {name: str(path) for name, path in places(work / str(number)).items()}
        words = [word.format(**paths) for word in call.words.split()]
        done = environment.run("logwright", *words)
        output = done.stdout + done.stderr
        named = f"pip install 'logwright[{call.extra}]'" in done.stderr
        missing = done.returncode == MissingExtra.exit_status and "not installed here" in output
        is_right = (named and missing) if call.extra not in {"", *extras} else not missing
        if not is_right or "Traceback" in output or done.returncode not in OTHER_STATUSES:
            wrong.append(f"{call.words}: {done.returncode} {done.stderr[-300:]}")
    return wrong
