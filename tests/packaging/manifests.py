"""The manifests of Kubernetes in `deploy/`, as documents and as pods."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.tidy.trees import ROOT

DEPLOY = ROOT / "deploy"
KUBERNETES = ("1.29.0", "1.37.0")
"""The oldest that the chart names, and the newest whose schemas the library has."""

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def documents(text: str) -> list[dict[str, Any]]:
    """The documents of a YAML file."""
    return [document for document in yaml.safe_load_all(text) if document is not None]


def refusals(document: dict[str, Any]) -> list[str]:
    """What the schemas of Kubernetes say of a document, unknown fields included."""
    import kubernetes_validate  # noqa: PLC0415 -- takes seconds, which collecting the tests need not

    problems = []
    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            problems.append(f"{document['kind']} {version}: {error.message}")
    return problems


def pods(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The specs of the pods that a document makes."""
    spec = document.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    if "template" in spec:
        yield spec["template"]["spec"]


def liberties(pod: dict[str, Any]) -> list[str]:
    """What a pod may do that it need not: the standard `restricted`, and a root that is written."""
    wrong = [] if pod["securityContext"]["runAsNonRoot"] else ["it may be root"]
    wrong += [] if pod["securityContext"]["runAsUser"] > 0 else ["it is root"]
    kind = pod["securityContext"]["seccompProfile"]["type"]
    wrong += [] if kind == "RuntimeDefault" else [f"its profile is {kind}"]
    wrong += ["it has a token"] if pod.get("automountServiceAccountToken", True) else []
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        if container["securityContext"] != RESTRICTED:
            wrong.append(f"{container['name']}: {container['securityContext']}")
    return wrong


def unbacked_mounts(pod: dict[str, Any]) -> list[str]:
    """Mounts of volumes that the pod does not have."""
    names = {volume["name"] for volume in pod["volumes"]}
    return [
        f"{container['name']}: {mount['name']}"
        for container in [*pod.get("initContainers", []), *pod["containers"]]
        for mount in container["volumeMounts"]
        if mount["name"] not in names
    ]


def chart_values(path: Path = DEPLOY / "helm/logwright/values.yaml") -> dict[str, Any]:
    """The chart's default values."""
    values: dict[str, Any] = yaml.safe_load(path.read_text())
    return values
