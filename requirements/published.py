"""What setuptools adds to what is published, see `[tool.setuptools.cmdclass]` in pyproject.toml.

1. The wheel has a bill of materials (PEP 770): `*.dist-info/sboms/logwright.cdx.json`, CycloneDX
   1.6, with the versions of the lock, which the tests and the image run with.
2. The source distribution depends on the sources and ``SOURCE_DATE_EPOCH`` alone, as setuptools'
   wheels do already.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import tarfile
import time
import uuid
from pathlib import Path
from typing import Any

from setuptools import Distribution
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.sdist import sdist

LOCK = Path(__file__).with_name("runtime.txt")
PIN = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)
NAME = re.compile(r"^[\w.-]+")


class Wheel(bdist_wheel):
    """A wheel with its bill of materials."""

    def write_wheelfile(self, wheelfile_base: str, **more: str) -> None:
        """Write it next to WHEEL, before RECORD is made of all files."""
        super().write_wheelfile(wheelfile_base, **more)
        sboms = Path(wheelfile_base) / "sboms"
        sboms.mkdir(exist_ok=True)
        bill = bill_of_materials(self.distribution, LOCK.read_text())
        text = json.dumps(bill, indent=1) + "\n"
        (sboms / "logwright.cdx.json").write_text(text)


class SourceDistribution(sdist):
    """A source distribution without times, users and rights of the machine that made it."""

    def make_archive(self, base_name: str, *_: object, base_dir: str, **_more: object) -> str:
        """Pack the release tree, sorted."""
        path = Path(f"{base_name}.tar.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        built_at = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))

        def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.mtime = built_at
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            return entry

        tree = Path(base_dir)
        with (
            path.open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=built_at) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for entry in [tree, *sorted(tree.rglob("*"))]:
                archive.add(entry, recursive=False, filter=plain)
        return str(path)


def bill_of_materials(distribution: Distribution, lock: str) -> dict[str, Any]:
    """Describe the package and what the lock pins, for Python 3.11 on Linux x86_64.

    Args:
        distribution: whose name, version, license and direct dependencies are in it.
        lock: the text of a requirements file.

    Returns:
        A document of CycloneDX 1.6, equal for equal arguments.
    """
    pins = {name.lower(): version for name, version in PIN.findall(lock)}
    components = [
        {"type": "library", "bom-ref": ref, "name": name, "version": version, "purl": ref}
        for name, version in sorted(pins.items())
        for ref in [_purl(name, version)]
    ]
    name, version = distribution.get_name(), distribution.get_version()
    ours = _purl(name, version)
    serial = uuid.uuid5(uuid.NAMESPACE_OID, f"{ours} {sorted(pins.items())}")
    direct = {
        NAME.match(line)[0].lower()  # type: ignore[index]  # setuptools has checked them
        for lines in [distribution.install_requires, *distribution.extras_require.values()]
        for line in lines
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": name,
                "version": version,
                "purl": ours,
                "licenses": [{"expression": distribution.metadata.license_expression}],
            },
            "properties": [
                {"name": "logwright:lock", "value": "requirements/runtime.txt"},
                {"name": "logwright:platform", "value": "Python 3.11, Linux x86_64"},
            ],
        },
        "components": components,
        "dependencies": [
            {
                "ref": ours,
                "dependsOn": [_purl(name, pins[name]) for name in sorted(direct & pins.keys())],
            }
        ],
    }


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"
