"""What `deploy/` has is what its programs accept: linted, validated, and its commands are run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.e2e.harness import POLICY
from tests.fixtures import copy_before
from tests.log_builder import LogBuilder
from tests.packaging.manifests import (
    DEPLOY,
    chart_values,
    documents,
    liberties,
    pods,
    refusals,
    unbacked_mounts,
)
from tests.tidy.trees import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
MANIFESTS = sorted((DEPLOY / "kubernetes").iterdir())
UNITS = sorted((DEPLOY / "systemd").iterdir())
CHART = DEPLOY / "helm/logwright"
COMPOSE = DEPLOY / "compose.yaml"
EXPOSURE = 2.0
"""Of 10, by systemd's own scale, where 2 and less is called OK."""

DIRECTORY = "/var/lib/kafka/data"
UNDELAYED = """\
version: 1
defaults: {cleanup.policy: compact, min.cleanable.dirty.ratio: 0, file.delete.delay.ms: 0}
topics: [{name: old, cleanup.policy: delete, retention.ms: 1}]
"""
"""What is retired is purged by the same maintenance."""

VALUE = re.compile(r"\.Values((?:\.\w+)+)")
IMAGE = re.compile(r"(?:image: *|_IMAGE=|-t +)\"?(?:\$\{\w+:-)?([\w./-]+:[\w.-]+)")


def tool(name: str) -> Path:
    """A program of the environment that the tests run in."""
    return Path(sys.executable).with_name(name)


def printed(*words: str | Path) -> str:
    """What a checker prints, with its exit status if that is not 0."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    status = f"exit status {done.returncode}" if done.returncode else ""
    return done.stdout + done.stderr + status


def test_the_containerfile_has_no_finding() -> None:
    """Of hadolint."""
    assert "" == printed(tool("hadolint"), DEPLOY / "Containerfile")


def test_the_compose_file_is_one() -> None:
    """By the schema of the Compose specification."""
    checked = printed(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", COMPOSE)
    assert "ok -- validation done\n" == checked


def services() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return loaded


@pytest.mark.parametrize("name", ["webserver", "daemon"])
def test_a_service_has_no_right_that_it_does_not_need(name: str) -> None:
    """Not root, no capability, nothing that is written but its volumes; only the daemon writes to
    the log directory.
    """
    service = services()[name]
    assert "${BROKER_UID:-1000}:${BROKER_GID:-1000}" == service["user"]
    assert service["read_only"]
    assert ["ALL"] == service["cap_drop"]
    assert ["no-new-privileges:true"] == service["security_opt"]
    bound = {volume["target"]: volume for volume in service["volumes"] if type(volume) is dict}
    assert {"/var/lib/kafka/data", "/etc/logwright/policies"} == set(bound)
    assert all(not volume["bind"]["create_host_path"] for volume in bound.values())
    assert (name == "webserver") == bound["/var/lib/kafka/data"].get("read_only", False)
    assert bound["/etc/logwright/policies"]["read_only"]


def test_the_page_is_on_the_loopback_and_the_database_on_no_port() -> None:
    """Neither asks who comes, or is asked from outside."""
    ports = {name: service.get("ports", []) for name, service in services().items()}
    assert {"webserver": ["127.0.0.1:3000:3000"], "daemon": [], "postgres": []} == ports


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root that has systemd's own units, ours, and programs where ours name them."""
    root = tmp_path_factory.mktemp("root")
    shutil.copytree("/usr/lib/systemd/system", root / "usr/lib/systemd/system", symlinks=True)
    shutil.copytree(DEPLOY / "systemd", root / "etc/systemd/system")
    programs = root / "opt/logwright/bin"
    programs.mkdir(parents=True)
    for name in ("logwright", "dagster-daemon", "dagster-webserver"):
        shutil.copy(tool(name), programs / name)
    return root


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_a_unit(machine: Path, unit: Path) -> None:
    """Every key and value, and the programs exist; a timer's service, too."""
    name = unit.name.replace("@.", "@var-lib-kafka-data.")
    assert "" == printed("systemd-analyze", "verify", f"--root={machine}", name)


def test_systemd_accepts_what_a_hook_needs(machine: Path) -> None:
    """The drop-in of docs/rolling.md, of a unit of a broker."""
    (drop_in,) = re.findall(
        r"^```ini\n(.*?)^```", (ROOT / "docs/rolling.md").read_text(), re.MULTILINE | re.DOTALL
    )
    units = machine / "etc/systemd/system"
    (units / "kafka.service.d").mkdir()
    (units / "kafka.service").write_text("[Service]\nExecStart=/opt/logwright/bin/logwright\n")
    (units / "kafka.service.d" / "rolling.conf").write_text(drop_in)
    assert "" == printed("systemd-analyze", "verify", f"--root={machine}", "kafka.service")
    (units / "kafka.service.d" / "rolling.conf").write_text(f"{drop_in}Unknown=1\n")
    assert "" != printed("systemd-analyze", "verify", f"--root={machine}", "kafka.service")


@pytest.mark.parametrize(
    "unit", [unit for unit in UNITS if unit.suffix == ".service"], ids=lambda unit: unit.name
)
def test_a_unit_has_no_right_that_it_does_not_need(unit: Path) -> None:
    """Its exposure, as systemd counts it."""
    table = printed("systemd-analyze", "security", "--offline=yes", "--no-pager", unit)
    (level,) = re.findall(r"Overall exposure level for .*: ([\d.]+)", table)
    assert float(level) <= EXPOSURE, table


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest.name)
def test_kubernetes_accepts_a_manifest(manifest: Path) -> None:
    """By its schemas, unknown fields refused; its pod has no right that it does not need."""
    (document,) = documents(manifest.read_text())
    assert [] == refusals(document)
    (pod,) = pods(document)
    assert [] == liberties(pod)
    assert [] == unbacked_mounts(pod)


def test_a_wrong_manifest_is_refused() -> None:
    """The checks above see a misspelt field, root, and a volume that is not there."""
    (document,) = documents((DEPLOY / "kubernetes/job.yaml").read_text())
    document["spec"]["backofLimit"] = 1
    (pod,) = pods(document)
    pod["securityContext"]["runAsUser"] = 0
    pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = False
    pod["volumes"].pop()
    assert 2 == len(refusals(document))
    assert 2 == len(liberties(pod))
    assert ["maintain: tmp"] == unbacked_mounts(pod)


def test_the_chart_has_the_values_that_it_uses() -> None:
    """Each value that a template names has a default, each default is used, and the schema takes
    them and refuses others.
    """
    values = chart_values()
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.validate(values, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**values, "logDirectories": []}, schema)
    texts = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    used = {path.removeprefix(".") for path in VALUE.findall(texts)}
    for path in used:
        at: Any = values
        for word in path.split("."):
            assert word in at, path
            at = at[word]
    assert set(values) == {path.partition(".")[0] for path in used}


def test_one_version() -> None:
    """The chart and every image of logwright are of the version that is built."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (VERSION, VERSION) == (chart["version"], chart["appVersion"])
    texts = [path.read_text() for path in DEPLOY.rglob("*") if path.is_file()]
    images = {image for text in texts for image in IMAGE.findall(text)}
    assert {f"logwright:{VERSION}"} == {image for image in images if "logwright" in image}
    assert [] == [image for image in images if "/" in image], "the host of a registry"


def of_the_unit() -> list[str]:
    """The words of the timer's service, for the log directory of its instance."""
    text = (DEPLOY / "systemd/logwright-maintain@.service").read_text()
    (line,) = re.findall(r"^ExecStart=/opt/logwright/bin/(.*)$", text, re.MULTILINE)
    return shlex.split(line.replace("%f", DIRECTORY))


def of_a_manifest(name: str) -> list[str]:
    (document,) = documents((DEPLOY / "kubernetes" / name).read_text())
    (pod,) = pods(document)
    (container,) = pod["containers"]
    return [*container["command"], *container["args"]]


def of_the_chart() -> list[str]:
    """Of its template, without Helm: the one value in it is the directory's name."""
    text = (CHART / "templates/maintenance.yaml").read_text()
    lines = re.findall(r"^ *((?:command|args): .*)$", text, re.MULTILINE)
    container = yaml.safe_load("\n".join(lines).replace("/logs/{{ $dir.name }}", DIRECTORY))
    return [*container["command"], *container["args"]]


COMMANDS: dict[str, Callable[[], list[str]]] = {
    "unit": of_the_unit,
    "job": partial(of_a_manifest, "job.yaml"),
    "cron job": partial(of_a_manifest, "cronjob.yaml"),
    "chart": of_the_chart,
}
"""Each maintenance that is shipped: what gives its words."""


def maintained(words: list[str], log_dir: Path, policies: Path) -> subprocess.CompletedProcess[str]:
    """Run a shipped command on another directory, as the program of this environment."""
    program, *rest = words
    known = {DIRECTORY: log_dir, "/etc/logwright/policies": policies}
    return subprocess.run(
        [tool(program), *(str(known.get(word, word)) for word in rest)],
        capture_output=True,
        text=True,
        check=False,
    )


def policies_of(tmp_path: Path, text: str) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/policies.yml").write_text(text)
    return tmp_path / "policies"


def test_a_maintenance_is_the_same_everywhere() -> None:
    """In the unit, in the job, in the cron job and in the chart: one command, no shell that stops
    at the first failure.
    """
    unit, *others = [words() for words in COMMANDS.values()]
    assert ["logwright", "maintain", DIRECTORY] == unit[:3]
    assert all(unit == words for words in others)


@pytest.mark.rotates(4)
@pytest.mark.e2e
@pytest.mark.parametrize("name", COMMANDS)
def test_one_corrupt_log_does_not_stop_the_others(tmp_path: Path, name: str) -> None:
    """The shipped command: healthy logs are compacted, retained and purged, the corrupt one is
    left, and the status is that of the corrupt one.
    """
    log_dir = tmp_path / "logs"
    for partition in ("bad-0", "good-0", "old-0"):
        log = LogBuilder(log_dir, partition)
        log.segment(0).batch(0, [("a", "1"), ("a", "2")])
        log.segment(2).batch(2, [("a", "3")])
        log.segment(3)
        log.write()
    corrupt = log_dir / f"bad-0/{0:020d}.log"
    content = bytearray(corrupt.read_bytes())
    content[-1] ^= 1
    corrupt.write_bytes(content)
    done = maintained(COMMANDS[name](), log_dir, policies_of(tmp_path, UNDELAYED))
    assert 3 == done.returncode, done.stdout + done.stderr
    assert "exit status 3 (clean 3, retain 0, purge 0)" in done.stdout
    left = {path.parent.name for path in log_dir.glob("*/*.log") if path.stat().st_size}
    assert {"bad-0", "good-0"} == left
    assert bytes(content) == corrupt.read_bytes()
    assert [f"{3:020d}.log"] == [path.name for path in (log_dir / "old-0").glob("*.log")]
    assert 1 == sum(path.stat().st_size > 0 for path in (log_dir / "good-0").glob("*.log"))
    assert [] == list(log_dir.glob("*/*.deleted"))


@pytest.mark.rotates(3)
@pytest.mark.e2e
def test_a_maintenance_without_dagster(tmp_path: Path) -> None:
    """The job's command compacts, and what it leaves verifies; again, it finds nothing to do."""
    log_dir = copy_before("basic-mixed", tmp_path)
    policies = policies_of(tmp_path, POLICY)
    left = []
    for _ in range(2):
        done = maintained(of_a_manifest("job.yaml"), log_dir, policies)
        assert 0 == done.returncode, done.stdout + done.stderr
        left.append({file.name: file.read_bytes() for file in (log_dir / "t-0").glob("0*.log*")})
    assert [name for name in left[0] if name.endswith(".log.deleted")]
    assert left[0] == left[1]
    verified = printed(tool("logwright"), "verify", log_dir)
    assert "exit status" not in verified, verified
