"""What `deploy/` has is what its programs accept: linted, validated, and its commands are run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.e2e.harness import POLICY
from tests.fixtures import copy_before
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


def commands_of_the_unit() -> str:
    text = (DEPLOY / "systemd/logwright-maintain@.service").read_text()
    lines = re.findall(r"^ExecStart=/opt/logwright/bin/(.*)$", text, re.MULTILINE)
    return "\n".join(lines).replace("%f", "/var/lib/kafka/data")


def commands_of(manifest: str) -> str:
    (document,) = documents((DEPLOY / "kubernetes" / manifest).read_text())
    (pod,) = pods(document)
    (container,) = pod["containers"]
    assert ["sh", "-ec"] == container["command"]
    (script,) = container["args"]
    return str(script).strip()


def test_a_maintenance_is_the_same_everywhere() -> None:
    """In the unit, in the job and in the cron job."""
    assert commands_of_the_unit() == commands_of("job.yaml") == commands_of("cronjob.yaml")


@pytest.mark.rotates(3)
@pytest.mark.e2e
def test_a_maintenance_without_dagster(tmp_path: Path) -> None:
    """The job's script compacts, and what it leaves verifies; again, it finds nothing to do."""
    log_dir = copy_before("basic-mixed", tmp_path)
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "policies.yml").write_text(POLICY)
    script = commands_of("job.yaml").replace("/var/lib/kafka/data", str(log_dir))
    script = script.replace("/etc/logwright/policies", str(policies))
    path = f"{tool('logwright').parent}{os.pathsep}{os.environ['PATH']}"
    left = []
    for _ in range(2):
        done = subprocess.run(
            ["/bin/sh", "-ec", script],
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        left.append({file.name: file.read_bytes() for file in (log_dir / "t-0").glob("0*.log*")})
    assert [name for name in left[0] if name.endswith(".log.deleted")]
    assert left[0] == left[1]
    verified = printed(tool("logwright"), "verify", log_dir)
    assert "exit status" not in verified, verified
