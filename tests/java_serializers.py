"""What serializers of Java write, and what was put in. ``python -m tests.java_serializers`` makes
it again.

Confluent's own serializers are in no public index of packages. These are Apicurio's, with the ids
of Confluent's format: on Apache Avro and protobuf-java, which Confluent's are on, too.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.oracle_runner import JVM_OPTIONS, classpath_of, java

PROJECT = Path(__file__).with_name("java_serdes")
FILE = Path(__file__).with_name("data") / "java-serializers.json"


def written() -> dict[str, Any]:
    """Serialize again. Effects: builds the project, a process."""
    command = [java(), *JVM_OPTIONS, "-cp", classpath_of(PROJECT), "serdes.Main"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=120)
    records: dict[str, Any] = json.loads(done.stdout)
    return records


def main() -> None:
    """Write the file."""
    FILE.write_text(json.dumps(written(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
