"""What Spark must not show of its settings: credentials, in event logs, its pages and the list of
processes.

Spark redacts a setting whose name or value matches ``spark.redaction.regex``. Its default knows
secrets, passwords, tokens and access keys (`org.apache.spark.internal.config`), but neither
``AZURE_STORAGE_ACCOUNT_KEY`` nor ``AWS_ACCESS_KEY_ID``, connection strings or a service account's
key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

REDACTION: Final = "spark.redaction.regex"
_PARTS: Final = (
    "secret",
    "passw",
    "token",
    "credential",
    "access[._-]?key",
    "account[._-]?key",
    "api[._-]?key",
    "private[._-]?key",
    "[._-]key(?:[._-]|$)",
    "[._-]sas(?:[._-]|$)",
    "connection[._-]?string",
    "service[._-]?account",
    "user[._-]?info",
    "[?&](?:sig|signature|x-amz-signature)=",
    r"://[^/@\s:]+:[^/@\s]+@",
)
_OURS: Final = f"(?i:{'|'.join(_PARTS)})"
_SECRET: Final = re.compile(_OURS)
_AT_LAUNCH: Final = ("spark.driver.", "spark.jars", "spark.redaction.")
"""Settings that only the command line of the JVM can give."""
_DEFAULTS: Final = "spark-defaults.conf"
_SETTING: Final = re.compile(rf"\s*{re.escape(REDACTION)}(?:\s*[=:]\s*|\s+)(.*\S)\s*")
_ESCAPED: Final = re.compile(r"\\(.)")


def redaction_regex(environ: Mapping[str, str] | None = None) -> str:
    """Return the regex of what is redacted: Spark's default, what it does not know of the stores of
    buckets, and what the operator's ``spark-defaults.conf`` has. Effects: reads that file.

    Args:
        environ: the environment; this process's, if not given.
    """
    theirs = _of_operator(os.environ if environ is None else environ)
    return _OURS if not theirs or _OURS in theirs else f"{_OURS}|{theirs}"


def is_secret(name: str, value: str) -> bool:
    """Return whether a setting is redacted by its name or its value. Pure."""
    return bool(_SECRET.search(name) or _SECRET.search(value))


def at_launch(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the command line of Spark's JVM may have, which every user of the
    machine can read: all but the secret ones. The JVM is given those when it runs. Pure.
    """
    return {
        name: value
        for name, value in settings.items()
        if name.startswith(_AT_LAUNCH) or not is_secret(name, value)
    }


def _of_operator(environ: Mapping[str, str]) -> str:
    """Return the regex in the operator's file, empty if there is none."""
    home = environ.get("SPARK_HOME")
    directory = environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    if directory is None:
        return ""
    try:
        lines = (Path(directory) / _DEFAULTS).read_text(errors="replace").splitlines()
    except OSError:
        return ""  # Spark cannot read it either
    values = [match[1] for line in lines if (match := _SETTING.fullmatch(line))]
    return _ESCAPED.sub(r"\1", values[-1]) if values else ""
