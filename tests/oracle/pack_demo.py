"""Makes the log directory of `logwright demo` again, by Kafka's own code, and packs it.

    python -m tests.oracle.pack_demo

writes logwright/demo/kafka-logs.tar.xz and logwright/demo/settings.json. The same seed gives the
same bytes; the modification times are those of each segment's last record, to the second.
"""

from __future__ import annotations

import io
import json
import lzma
import tarfile
import tempfile
from pathlib import Path

from tests.oracle_runner import run_oracle

DEMO = Path(__file__).parent.parent.parent / "logwright" / "demo"
SEED = 1


def modified_seconds(path: Path) -> int:
    """What the generator set on a segment's files; 0 for the rest, which have the wall clock's."""
    return int(path.stat().st_mtime) if path.with_suffix(".log").exists() else 0


def pack(root: Path) -> bytes:
    """A tar of everything below root, packed by xz; owners and modes left out."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(str(path.relative_to(root.parent)))
                entry.size = path.stat().st_size
                entry.mtime = modified_seconds(path)
                with path.open("rb") as file:
                    tar.addfile(entry, file)
    return lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def main() -> None:
    """Effects: runs the oracle, overwrites the two files."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "demo"
        described = run_oracle("generate", "--case", "demo", "--out", out, "--seed", str(SEED))[0]
        (DEMO / "kafka-logs.tar.xz").write_bytes(pack(out / "kafka-logs"))
        (DEMO / "settings.json").write_text(json.dumps(described, indent=2) + "\n")


if __name__ == "__main__":
    main()
