"""No user makes in a log directory what its broker could not open or replace."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
BROKER, TOOL, GROUP = 1234, 1235, 2345
ROOT = 0

PROGRAM = f"""
import os, sys
from pathlib import Path
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.locks import lock_checkpoints, lock_log_dir, lock_partition
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.marker import lock_marker

def write_checkpoint(log_dir):
    with RealFileSystem(log_dir) as fs:
        fs.write_file(log_dir / "x.tmp", b"", like=log_dir / "x")

what, user, log_dir = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
if user:
    os.setgroups([{GROUP}])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
try:
    if what == "write":
        write_checkpoint(log_dir)
    elif what == "partition":
        with lock_partition(log_dir, TopicPartition("t", 0)):
            pass
    else:
        with {{"dir": lock_log_dir, "checkpoints": lock_checkpoints, "marker": lock_marker}}[
            what
        ](log_dir):
            pass
except (LogwrightError, OSError) as error:
    sys.exit(str(error))
"""

pytestmark = pytest.mark.needs_rights("another_user")


@pytest.fixture
def log_dir() -> Iterator[Path]:
    """The broker's, in a group of several users; pytest's own directories are one user's alone."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        log_dir = Path(made) / "logs"
        (log_dir / "t-0").mkdir(parents=True)
        for path in (log_dir, log_dir / "t-0"):
            os.chown(path, BROKER, GROUP)
            path.chmod(0o775)
        yield log_dir


def attempt(what: str, user: int, log_dir: Path, *before: str) -> str:
    """The error of another user who tries to take a lock or to write; empty if it worked."""
    done = subprocess.run(
        [*before, sys.executable, "-c", PROGRAM, what, str(user), str(log_dir)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == bool(done.stderr)
    return done.stderr


def names(log_dir: Path) -> list[str]:
    return sorted(path.name for path in log_dir.rglob("*"))


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("dir", ".lock"),
        ("checkpoints", ".logwright-checkpoints.lock"),
        ("marker", ".logwright-marker.lock"),
        ("partition", "t-0/.logwright/lock"),
    ],
)
def test_another_user_is_refused_before_a_file_is_made(log_dir: Path, what: str, name: str) -> None:
    """A member of the directory's group may make files there, but cannot give them away."""
    before = names(log_dir)
    assert (
        f"{log_dir / name}: user {TOOL} cannot give it to the broker's user, {BROKER}. "
        f"Nothing was changed. Run it as the broker's user (uid {BROKER}).\n"
    ) == attempt(what, TOOL, log_dir)
    assert before == names(log_dir)
    assert "" == attempt(what, BROKER, log_dir)


def test_the_brokers_user_is_who_owns_its_checkpoint(log_dir: Path) -> None:
    """The directory itself may have been made by another user."""
    checkpoint = log_dir / "recovery-point-offset-checkpoint"
    checkpoint.write_text("0\n0\n")
    os.chown(checkpoint, TOOL, TOOL)
    assert f"the broker's user, {TOOL}." in attempt("dir", BROKER, log_dir)
    assert not (log_dir / ".lock").exists()
    assert "" == attempt("dir", TOOL, log_dir)
    status = (log_dir / ".lock").stat()
    assert (TOOL, GROUP) == (status.st_uid, status.st_gid)
    assert 0o664 == stat.S_IMODE(status.st_mode)


def test_a_lock_file_in_roots_directory_gets_its_group(log_dir: Path) -> None:
    """A broker in that group can open it, whoever made it."""
    os.chown(log_dir, ROOT, GROUP)
    assert "" == attempt("dir", TOOL, log_dir)
    assert GROUP == (log_dir / ".lock").stat().st_gid
    assert "" == attempt("dir", BROKER, log_dir)


def test_another_user_may_lock_what_is_there(log_dir: Path) -> None:
    """Who only reads locks the broker's own file, and makes none."""
    assert "" == attempt("dir", BROKER, log_dir)
    assert "" == attempt("dir", TOOL, log_dir)


def test_a_lock_file_that_cannot_be_given_away_is_removed(log_dir: Path) -> None:
    """As root without CAP_CHOWN, as on a file system that does not trust root."""
    reported = attempt("dir", ROOT, log_dir, "setpriv", "--bounding-set", "-chown")
    assert "Operation not permitted" in reported
    assert ["t-0"] == names(log_dir)
    assert "" == attempt("dir", BROKER, log_dir)


def test_a_file_that_cannot_be_given_away_is_removed(log_dir: Path) -> None:
    """A broker could not replace a checkpoint's temporary file of another user."""
    (log_dir / "x").write_bytes(b"")
    assert "Operation not permitted" in attempt("write", TOOL, log_dir)
    assert ["t-0", "x"] == names(log_dir)
