"""``pause`` in a container: its user has a number, and no name in the passwd file."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from logwright.format.names import TopicPartition
from logwright.state.store import read_state
from tests.fixtures import copy_before

REPOSITORY = Path(__file__).parents[3]
NAMELESS = 54_321
NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
PROGRAM = f"""
import os, sys
from logwright.cli.main import main
arguments = ["pause", sys.argv[1], "t-0", "--reason", "a disk is replaced", "--yes"]
main([*arguments, "--dry-run"], standalone_mode=False)  # imports what the other user may not read
os.setgroups([])
os.setresgid({NAMELESS}, {NAMELESS}, {NAMELESS})
os.setresuid({NAMELESS}, {NAMELESS}, {NAMELESS})
main(arguments)
"""


@pytest.mark.needs_rights("another_user")
def test_a_user_without_a_name_pauses_by_number() -> None:
    """The owner of the pause is the uid."""
    with pytest.raises(KeyError):
        pwd.getpwuid(NAMELESS)
    with tempfile.TemporaryDirectory() as made:  # pytest's own directories are one user's alone
        Path(made).chmod(0o755)
        log_dir = copy_before("basic-none", Path(made))
        for path in (log_dir, *log_dir.rglob("*")):
            os.chown(path, NAMELESS, NAMELESS)
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(log_dir)],
            cwd=REPOSITORY,
            env={name: value for name, value in os.environ.items() if name not in NAMES},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (pause,) = read_state(log_dir)[TopicPartition("t", 0)].pauses
        assert str(NAMELESS) == pause.owner
