"""Packs directories of cases into kafka-cases.tar.xz and kafka-cases-4.4.tar.xz, and writes the
list of them, README.md.

    python tests/data/pack.py CASES_DIR SWAP_LAYOUTS_DIR CASES_OF_4_4_DIR

Each holds one directory for each case, as `oracle generate` writes them. Dumps are stored unpacked
and files are sorted by kind, so that xz sees like next to like; owners, modes and times are left
out (the times that matter are in each case.json), so that the same cases give the same bytes.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).parent
HEADER = """\
# Cases written by Apache Kafka

`kafka-cases.tar.xz` holds what Apache Kafka 4.3.0 itself wrote, run by the Maven project in
`tests/oracle` (`generate --case all`, `generate --case real-broker`); `kafka-cases-4.4.tar.xz` what
Kafka 4.4.0 wrote where it differs (`range-end`, `zstd-again`, `decompressed`). Nothing in them was
made by logwright. `tests/fixtures.py` unpacks them.

`cases/NAME/` is a case:

- `before/` a log directory as Kafka wrote it, `after/` what Kafka made of it by doing `ops` with
  the settings of `case.json` at its `now`;
- `before.jsonl`, `after.jsonl` dumps of both by Kafka's own readers (`real-broker` has one for each
  partition, `before.TOPIC-N.jsonl`);
- `case.json` settings, plan, results, and the modification times, which an archive of bare contents
  does not keep.

`swap-layouts/NAME/` are hand-made groups whose last segments lose all their records ("tails"), in
the same form, for the crash tests of the swap.

Repack with `python tests/data/pack.py CASES_DIR SWAP_LAYOUTS_DIR CASES_OF_4_4_DIR`.

| case | Kafka | operations | what it is for |
|---|---|---|---|
"""


def contents(root: Path, prefix: str) -> list[tuple[str, bytes]]:
    """Every file below root, as (name in the archive, bytes)."""
    contents_of = []
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        name = f"{prefix}/{path.relative_to(root)}"
        data = path.read_bytes()
        if name.endswith(".jsonl.gz"):
            name, data = name.removesuffix(".gz"), gzip.decompress(data)
        contents_of.append((name, data))
    return contents_of


def kind(name: str) -> str:
    """What the file is, so that like files lie together."""
    base = name.rsplit("/", 1)[-1]
    return base.rsplit(".", 1)[-1] if "." in base else base


def archive(files: list[tuple[str, bytes]]) -> bytes:
    """A tar of the files, packed by xz."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in sorted(files, key=lambda file: (kind(file[0]), file[0])):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def listing(*directories: Path) -> str:
    """README.md: one row for each case."""
    rows = []
    for cases in directories:
        for path in sorted(cases.glob("*/case.json")):
            case = json.loads(path.read_text())
            cells = (path.parent.name, case["kafka"], ", ".join(case["ops"]), case["notes"])
            rows.append(f"| {' | '.join(cells)} |\n")
    return HEADER + "".join(rows)


def main(cases: Path, layouts: Path, cases_of_4_4: Path) -> None:
    """Writes the archives and the listing next to this file."""
    packed = archive(contents(cases, "cases") + contents(layouts, "swap-layouts"))
    (HERE / "kafka-cases.tar.xz").write_bytes(packed)
    (HERE / "kafka-cases-4.4.tar.xz").write_bytes(archive(contents(cases_of_4_4, "cases")))
    (HERE / "README.md").write_text(listing(cases, cases_of_4_4))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
