"""The chart as Helm renders it."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest
import yaml

from tests.packaging.manifests import (
    DEPLOY,
    KUBERNETES,
    documents,
    liberties,
    pods,
    refusals,
    unbacked_mounts,
)

pytestmark = [pytest.mark.nightly, pytest.mark.needs_rights("helm")]

CHART = DEPLOY / "helm/logwright"
LOGS = [
    {"name": "broker0", "claim": "data-0-kafka-broker-0", "subPath": "kafka-log0"},
    {"name": "broker1", "claim": "data-0-kafka-broker-1"},
]
PLATFORM = {"ConfigMap": 1, "Deployment": 1, "Service": 1, "PersistentVolumeClaim": 1}
CASES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "SQLite": ({"logDirs": LOGS}, PLATFORM),
    "PostgreSQL, and cron jobs": (
        {
            "logDirs": LOGS,
            "platform": {"postgresql": {"host": "database", "existingSecret": "dagster"}},
            "maintenance": {"enabled": True},
            "extraEnv": [{"name": "LOGWRIGHT_KAFKA_VERSION", "value": "4.4"}],
            "imagePullSecrets": [{"name": "images"}],
            "nodeSelector": {"kafka": "yes"},
            "tolerations": [{"key": "kafka", "operator": "Exists"}],
        },
        {**PLATFORM, "CronJob": 2},
    ),
    "cron jobs alone": (
        {
            "logDirs": LOGS,
            "platform": {"enabled": False},
            "maintenance": {"enabled": True},
        },
        {"ConfigMap": 1, "CronJob": 2},
    ),
}


def helm(*words: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run helm on the chart with these values."""
    program = shutil.which("helm")
    assert program is not None
    version = KUBERNETES[-1].rpartition(".")[0]
    return subprocess.run(
        [program, *words, str(CHART), "--kube-version", version, "--values", "-"],
        input=yaml.safe_dump(values),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("case", CASES)
def test_the_chart_renders(case: str) -> None:
    """Helm has no finding, Kubernetes accepts each document, and no pod has a right too many."""
    values, expected = CASES[case]
    linted = helm("lint", "--strict", values=values)
    assert 0 == linted.returncode, linted.stdout + linted.stderr
    rendered = helm("template", "demo", values=values)
    assert 0 == rendered.returncode, rendered.stderr
    made = documents(rendered.stdout)
    kinds = [document["kind"] for document in made]
    assert expected == {kind: kinds.count(kind) for kind in kinds}
    assert [] == [line for document in made for line in refusals(document)]
    for document in made:
        for pod in pods(document):
            assert [] == liberties(pod)
            assert [] == unbacked_mounts(pod)
    names = [(document["kind"], document["metadata"]["name"]) for document in made]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "logDirs is empty"),
        ({"logDirs": LOGS, "platform": {"postgresql": {"host": "database"}}}, "existingSecret"),
        ({"logDirs": [{"name": "Broker 0", "claim": "data"}]}, "pattern"),
        ({"logDirs": LOGS, "maintenence": {"enabled": True}}, "maintenence"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], words: str) -> None:
    """With the name of what is wrong."""
    refused = helm("template", "demo", values=values)
    assert 0 != refused.returncode
    assert words in refused.stderr
