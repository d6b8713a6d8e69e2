"""What is locked is within the declared ranges, exact, and has hashes."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement

from tests.tidy.trees import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


def canonical(name: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(file: str) -> dict[str, str]:
    """Version by name in one lock."""
    text = (ROOT / "requirements" / file).read_text()
    return {canonical(name): version for name, version in LOCKED.findall(text)}


def declared(*groups: str) -> list[str]:
    """What pyproject.toml asks for: itself and the named extras."""
    project = PROJECT["project"]
    extras = [one for group in groups for one in project["optional-dependencies"][group]]
    wanted: list[str] = project["dependencies"] + PROJECT["build-system"]["requires"] + extras
    return wanted


@pytest.mark.parametrize(
    ("file", "groups"),
    [
        ("runtime.txt", ("erasure", "spark", "dagster")),
        ("dev.txt", ("erasure", "spark", "dagster", "archive", "bucket", "jre", "dev")),
    ],
)
def test_every_requirement_is_in_the_lock(file: str, groups: tuple[str, ...]) -> None:
    """`make lock` was run after the last change of a range."""
    versions = locked(file)
    for requirement in declared(*groups):
        wanted = Requirement(requirement)
        if wanted.name != PROJECT["project"]["name"]:
            version = versions.get(canonical(wanted.name))
            assert version is not None, requirement
            assert wanted.specifier.contains(version), f"{requirement}, and {version} is locked"


def test_the_java_lock_is_the_extra() -> None:
    """requirements/jre.txt holds the extra `jre` and nothing else."""
    (java,) = map(Requirement, PROJECT["project"]["optional-dependencies"]["jre"])
    ((name, version),) = locked("jre.txt").items()
    assert name == java.name
    assert java.specifier.contains(version)


def test_development_is_what_is_shipped() -> None:
    """The tests run with the very versions that an operator gets."""
    runtime, dev = locked("runtime.txt"), locked("dev.txt")
    assert {name: dev.get(name) for name in runtime} == runtime


@pytest.mark.parametrize("file", ["runtime.txt", "dev.txt", "jre.txt"])
def test_locks_are_hashes_only(file: str) -> None:
    """Every requirement has a hash, and no line says from where it comes."""
    text = (ROOT / "requirements" / file).read_text()
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert [block.split("==")[0] for block in blocks if "--hash=sha256:" not in block] == []
    assert "://" not in text
