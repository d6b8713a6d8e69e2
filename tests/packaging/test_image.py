"""The image, built without an index of packages and run as a container would be: not as root, and
on a root that nobody can write.

The base is made of Debian's packages, as no registry of images is asked. What a runtime of
containers does is done by mounts in a namespace and `chroot`; limits of memory are not tried.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import POLICY
from tests.fixtures import copy_before
from tests.packaging.building import build, copy_sources
from tests.rights import mounting

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.needs_rights("building_images"),
    pytest.mark.timeout(5400),
]

USER = 1000
DEBIAN = "bookworm"
"""Its Python is the one that the lock is for."""

INSIDE = """\
! touch /opt/logwright/file 2>/dev/null
cp /opt/logwright/share/logwright/dagster.yaml "$DAGSTER_HOME"
{command} >"$HOME/webserver" 2>&1 &
web=$!
for second in $(seq 180); do {health} 2>/dev/null && break; sleep 1; done
{health}
dagster job execute -m logwright.pipelines.definitions -j sweep
logwright verify /var/lib/kafka/data
kill $web
echo done as $(id -u)
"""
AROUND = """\
mount --bind {root} {root}
mount -o remount,ro,bind {root}
mount -t tmpfs -o mode=1777 tmpfs {root}/tmp
mount -t tmpfs -o uid={user},gid={user},mode=0750 tmpfs {root}/var/lib/logwright
mkdir {root}/var/lib/logwright/dagster
chown {user}:{user} {root}/var/lib/logwright/dagster
mount -t proc proc {root}/proc
mount --rbind /dev {root}/dev
mount --bind /etc/hosts {root}/etc/hosts
mount --bind {logs} {root}/var/lib/kafka/data
mount --bind {policies} {root}/etc/logwright/policies
exec chroot --userspec={user}:{user} {root} /usr/bin/env -i {variables} /bin/sh -exc {inside}
"""


def run(*words: str | Path) -> str:
    """What a program prints."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def namespace() -> tuple[str, ...]:
    """The words before a command that mounts."""
    words = mounting()
    assert words is not None
    return words


@dataclass(frozen=True, slots=True)
class Images:
    """Images of a test, apart from those of the machine."""

    directory: Path

    def __call__(self, *words: str | Path) -> str:
        """Run buildah, which needs no daemon."""
        places = ("--root", self.directory / "storage", "--runroot", self.directory / "run")
        return run("buildah", *places, *words)


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Images]:
    """An empty store of images; they take some GB."""
    store = Images(tmp_path / "images")
    yield store
    store("umount", "--all")
    store("rm", "--all")
    shutil.rmtree(tmp_path / "images", ignore_errors=True)


def make_context(directory: Path) -> Path:
    """What the image is built of: the release, the locks and each wheel that they name."""
    sources = copy_sources(directory / "logwright")
    wheels = sources / "dist"
    build("wheel", sources, wheels)
    locks = [sources / "requirements" / f"{name}.txt" for name in ("runtime", "jre")]
    words = [word for lock in locks for word in ("-r", lock)]
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes")
    run(*pip, *words, "-d", wheels)
    return sources


def make_base(images: Images, directory: Path) -> None:
    """An image of Debian with its Python. Effects: reads Debian's packages.

    In a namespace: whatever ends the program, what it mounts is not there any more, and who cleans
    up does not remove files of this machine's.
    """
    packages = "--include=python3,python3-venv"
    run(*namespace(), "debootstrap", "--variant=minbase", packages, DEBIAN, directory)
    container = images("from", "scratch").strip()
    images("copy", "--quiet", container, directory, "/")
    images("commit", "--quiet", "--rm", container, "python-of-debian")
    shutil.rmtree(directory)


def test_the_image_runs_without_rights(tmp_path: Path, images: Images) -> None:
    """Its web server is healthy, a sweep compacts and what it leaves verifies."""
    make_base(images, tmp_path / "base")
    context = make_context(tmp_path)
    images(
        "bud", "--isolation=chroot", "--format=docker", "--pull-never",
        "--ignorefile", context / ".dockerignore", "--file", context / "deploy/Containerfile",
        "--build-arg=PIP_NO_INDEX=1", "--build-arg=PYTHON_IMAGE=localhost/python-of-debian",
        "--tag=logwright", context,
    )  # fmt: skip
    container = images("from", "--pull-never", "localhost/logwright").strip()
    root = Path(images("mount", container).strip())
    config: dict[str, Any] = json.loads(images("inspect", container))["Docker"]["config"]
    assert f"{USER}:{USER}" == config["User"]
    log_dir = copy_before("basic-mixed", tmp_path)
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "policies.yml").write_text(POLICY)
    for path in (log_dir, *log_dir.rglob("*")):
        os.chown(path, USER, USER)
    for mounted in ("var/lib/kafka/data", "etc/logwright/policies"):
        (root / mounted).mkdir(parents=True)
    (root / "etc/hosts").touch()
    named = ("LOGWRIGHT_LOG_DIRS=/var/lib/kafka/data", "LOGWRIGHT_POLICIES=/etc/logwright/policies")
    inside = INSIDE.format(
        command=shlex.join(config["Cmd"]), health=shlex.join(config["Healthcheck"]["Test"][1:])
    )
    script = AROUND.format(
        root=root,
        user=USER,
        logs=log_dir,
        policies=policies,
        variables=shlex.join([*config["Env"], *named]),
        inside=shlex.quote(inside),
    )
    printed = run(*namespace(), "sh", "-ec", script)
    assert f"done as {USER}" == printed.splitlines()[-1]
    retired = list((log_dir / "t-0").glob("*.log.deleted"))
    assert retired
    assert {USER} == {path.stat().st_uid for path in log_dir.rglob("*")}
