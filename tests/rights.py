"""What a test may need of the machine and a machine may lack: rights, Pythons, programs. Found out
by trying.

A test with the marker ``needs_rights("mounting", ...)`` is not run where one of them is missing.
The run ends with a list of those tests, with their number. ``LOGWRIGHT_DEMAND_RIGHTS=1`` makes each
of them a failure instead: for a machine that should have all rights.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from functools import cache, partial
from shutil import which

import pytest

from tests.packaging.environments import PYTHONS, find_python

NOBODY = 65534
DEMAND = "LOGWRIGHT_DEMAND_RIGHTS"
MARKER = "needs_rights"


@cache
def mounting() -> tuple[str, ...] | None:
    """The words before a command that is to mount something, in a namespace of its own: of root
    with CAP_SYS_ADMIN, else of who may make a user namespace. None if neither works.
    """
    with tempfile.TemporaryDirectory() as directory:
        for words in (("unshare", "--mount"), ("unshare", "--mount", "--map-root-user")):
            if _works(*words, "mount", "-t", "tmpfs", "logwright-test", directory):
                return words
    return None


@cache
def another_user() -> bool:
    """Whether this process can become another user, as root can."""
    return _works("true", user=NOBODY)


@cache
def building_images() -> bool:
    """Whether an image can be built of Debian's packages and started: as root, without a daemon."""
    return mounting() is not None and another_user() and all(map(which, ("buildah", "debootstrap")))


RIGHTS: dict[str, tuple[Callable[[], object], str]] = {
    "mounting": (mounting, "mount a tmpfs: be root with CAP_SYS_ADMIN, or allow user namespaces"),
    "another_user": (another_user, "become another user: be root with CAP_SETUID and CAP_SETGID"),
    "helm": (partial(which, "helm"), "run helm from PATH"),
    "building_images": (
        building_images,
        "build an image: be root, with the packages buildah and debootstrap",
    ),
    **{
        f"python{version}": (
            partial(find_python, version),
            f"run Python {version} from PATH",
        )
        for version in PYTHONS
    },
}


def missing(item: pytest.Item) -> list[str]:
    """The rights that a test needs and that are missing here, by name."""
    needed = [name for marker in item.iter_markers(MARKER) for name in marker.args]
    return [name for name in dict.fromkeys(needed) if not RIGHTS[name][0]()]


def refuse(item: pytest.Item, names: list[str], *, demanded: bool) -> None:
    """Do not run a test that lacks these rights."""
    reason = "; ".join(f"{name} is missing ({RIGHTS[name][1]})" for name in names)
    if demanded:
        pytest.fail(f"{reason}; {DEMAND}=1 demands it", pytrace=False)
    pytest.skip(reason)


def _works(*words: str, user: int | None = None) -> bool:
    groups = None if user is None else ()
    try:
        done = subprocess.run(
            words, user=user, group=user, extra_groups=groups, capture_output=True, check=False
        )
    except OSError:
        return False
    return done.returncode == 0
