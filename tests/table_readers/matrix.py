"""Which engine, of which version, reads which table right: each in an environment of its own.

A cell is ``right``, ``refused`` (the engine raises, and reads a table of this format that has only
whole files), ``wrong`` (other rows, without a word), ``not read`` (it reads no table of this
format here) or ``ended`` (its process died, or took too long).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.packaging.building import ROOT, uv
from tests.table_readers.written import CONTROL, TABLES
from tests.table_rows import Rows

PROGRAM: Final = Path(__file__).with_name("reading.py")
RESULT: Final = Path(__file__).with_name("result.json")
DOCUMENT: Final = ROOT / "docs" / "tables.md"
BEGIN, END = "<!-- readers: python -m tests.table_readers -->\n", "<!-- end of readers -->\n"
READ_SECONDS: Final = 600
SHOWN: Final = {
    "right": "right",
    "refused": "refuses",
    "wrong": "**wrong rows**",
    "not read": "does not read",
    "ended": "ends",
}


@dataclass(frozen=True, slots=True)
class Reader:
    """A way to read a format.

    Attributes:
        title: of the way, such as a function.
        function: of reading.py.
        form: whose tables it reads.
    """

    title: str
    function: str
    form: str


@dataclass(frozen=True, slots=True)
class Engine:
    """An environment: the packages of PyPI, of which the first one names it, and Java archives."""

    packages: tuple[str, ...]
    readers: tuple[Reader, ...]
    jars: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Such as ``polars 2.1.0 with deltalake 1.6.6``."""
        packages = (*self.packages, *_artifacts(self.jars))
        first, *others = [_shown(each) for each in packages if "==" in each]
        return " with ".join([first, " and ".join(others)] if others else [first])


@dataclass(frozen=True, slots=True)
class Cell:
    """What came of a reader and a table."""

    reader: str
    table: str
    verdict: str
    detail: str = ""


def _shown(package: str) -> str:
    """Name and version of a package, without its extras."""
    name, _, version = package.partition("==")
    return f"{name.partition('[')[0]} {version}"


_DELTALAKE = (
    Reader("`QueryBuilder`", "deltalake_query", "delta"),
    Reader("`to_pyarrow_table`", "deltalake_arrow", "delta"),
)
_POLARS_DELTA = Reader("`scan_delta`", "polars_delta", "delta")
_POLARS = (
    Reader("`scan_parquet`", "polars_parquet", "parquet"),
    _POLARS_DELTA,
    Reader("`scan_iceberg`", "polars_iceberg", "iceberg"),
)
_PYICEBERG = (Reader("`scan`", "pyiceberg_scan", "iceberg"),)
_DUCKDB = (Reader("`read_parquet`", "duckdb_parquet", "parquet"),)
_PANDAS = (Reader("`read_parquet`", "pandas_parquet", "parquet"),)
_ARROW = (Reader("`dataset`", "pyarrow_parquet", "parquet"),)
_ICEBERG_12 = "pyiceberg[sql-sqlite,pyarrow]==0.12.0"

ENGINES: Final = (
    *(
        Engine((f"deltalake=={version}", "pyarrow>=16"), _DELTALAKE)
        for version in (
            "1.6.6",
            "1.6.3",
            "1.6.0",
            "1.5.1",
            "1.4.2",
            "1.3.3",
            "1.2.1",
            "1.0.2",
            "0.25.5",
        )
    ),
    Engine(("polars==2.1.0", "deltalake==1.6.6", _ICEBERG_12), _POLARS),
    Engine(("polars==2.1.0", "deltalake==1.5.1"), (_POLARS_DELTA,)),
    Engine(("polars==1.36.1", "deltalake==1.2.1"), (_POLARS[0], _POLARS_DELTA)),
    Engine(("polars-deltalake==1.3.2",), (Reader("`scan_delta`", "polars_plugin", "delta"),)),
    *(
        Engine((f"pyiceberg[sql-sqlite,pyarrow]=={version}",), _PYICEBERG)
        for version in ("0.12.0", "0.11.1", "0.10.0", "0.9.1", "0.8.1")
    ),
    Engine(
        ("pyspark==4.0.1",),
        (
            Reader("`parquet`", "spark_parquet", "parquet"),
            Reader("`delta`", "spark_delta", "delta"),
            Reader("`iceberg`", "spark_iceberg", "iceberg"),
        ),
        (
            "io.delta:delta-spark_2.13:4.0.0",
            "io.delta:delta-storage:4.0.0",
            "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",
        ),
    ),
    *(Engine((f"duckdb=={version}",), _DUCKDB) for version in ("2.0.1", "1.4.5")),
    Engine(
        (
            "duckdb==1.4.4",
            "duckdb-ext-delta==1.4.4.20260205",
            "duckdb-ext-iceberg==1.4.4.20260205",
            "duckdb-ext-avro==1.4.4.20260205",
        ),
        (
            Reader("`delta_scan`", "duckdb_delta", "delta"),
            Reader("`iceberg_scan`", "duckdb_iceberg", "iceberg"),
        ),
    ),
    *(Engine((f"pandas=={version}", "pyarrow"), _PANDAS) for version in ("3.1.1", "2.3.3")),
    *(Engine((f"pyarrow=={version}",), _ARROW) for version in ("26.0.1", "18.1.0")),
    Engine(
        ("datafusion==55.0.0", "deltalake==1.6.6"),
        (
            Reader("`register_parquet`", "datafusion_parquet", "parquet"),
            Reader("`register_table` of a `DeltaTable`", "datafusion_delta", "delta"),
        ),
    ),
    Engine(
        ("daft==0.7.26", "deltalake==1.6.6", _ICEBERG_12),
        (
            Reader("`read_parquet`", "daft_parquet", "parquet"),
            Reader("`read_deltalake`", "daft_delta", "delta"),
            Reader("`read_iceberg`", "daft_iceberg", "iceberg"),
        ),
    ),
    Engine(
        ("chdb==4.4.0",),
        (
            Reader("`file`", "chdb_parquet", "parquet"),
            Reader("`deltaLakeLocal`", "chdb_delta", "delta"),
            Reader("`icebergLocal`", "chdb_iceberg", "iceberg"),
        ),
    ),
)


def judged(expected: Rows, output: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return verdict and detail of what reading.py wrote; None: it wrote nothing."""
    if output is None:
        return "ended", ""
    if "raised" in output:
        return "refused", f"{output['raised']}: {output['message']}"
    wanted = Counter((one, two, key.hex(), value.hex()) for one, two, key, value in expected)
    read = Counter(tuple(row) for row in output["rows"])
    missing, more = (wanted - read).total(), (read - wanted).total()
    if missing or more:
        return "wrong", f"of {wanted.total()} rows {missing} missing, {more} others"
    return "right", ""


def with_control(cells: Sequence[Cell], form: str) -> list[Cell]:
    """Return the cells of a reader; without the control table of the format it refuses nothing."""
    reads = any(one.table == CONTROL[form] and one.verdict == "right" for one in cells)
    if reads:
        return list(cells)
    return [
        replace(cell, verdict="not read") if cell.verdict == "refused" else cell for cell in cells
    ]


def run(
    root: Path,
    expected: Rows,
    paths: Mapping[str, Path],
    say: Callable[[str], None],
    engines: Sequence[Engine] = ENGINES,
) -> Iterator[Cell]:
    """Yield all cells. Effects: makes environments, one at a time, and reads tables in them."""
    for engine in engines:
        environment = root / "environment"
        uv("venv", "--python", sys.executable, environment, cwd=root)
        python = environment / "bin" / "python"
        uv("pip", "install", "--python", python, *engine.packages, cwd=root)
        jars = ",".join(str(_downloaded(one, root / "jars")) for one in engine.jars)
        for reader in engine.readers:
            name = f"{engine.name}: {reader.title}"
            cells = []
            for title, (form, _) in TABLES.items():
                if form == reader.form:
                    output = read_by(python, reader.function, paths[title], root / "out.json", jars)
                    cells.append(Cell(name, title, *judged(expected, output)))
            for cell in with_control(cells, reader.form):
                say(f"{cell.reader}; {cell.table}: {cell.verdict} {cell.detail}")
                yield cell
        shutil.rmtree(environment)


def read_by(
    python: Path, function: str, path: Path, out: Path, jars: str = ""
) -> Mapping[str, Any] | None:
    """Return what reading.py writes; None: its process ended without. Effects: runs it."""
    out.unlink(missing_ok=True)
    try:
        subprocess.run(
            [python, PROGRAM, function, path, out, *filter(None, [jars])],
            cwd=path.parent,  # outside of which some engines read nothing
            capture_output=True,
            timeout=READ_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    if not out.exists():
        return None
    output: Mapping[str, Any] = json.loads(out.read_text())
    return output


def _downloaded(artifact: str, directory: Path) -> Path:
    """A Java archive of Maven. Effects: downloads it, unless it is there."""
    _, name, version = artifact.split(":")
    jar = directory / f"{name}-{version}.jar"
    if not jar.exists():
        maven = shutil.which("mvn")
        assert maven is not None, "Maven is not installed: make need-test"
        words = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"]
        subprocess.run([maven, "-q", "-B", *words], check=True, timeout=READ_SECONDS)
    return jar


def _artifacts(jars: Sequence[str]) -> Iterator[str]:
    """The archives that are worth a name, as packages have them."""
    for jar in jars:
        _, name, version = jar.split(":")
        if "spark" in name:
            yield f"{name}=={version}"


def recorded() -> list[Cell]:
    """The cells of the last run that was kept."""
    return [Cell(**one) for one in json.loads(RESULT.read_text())]


def keep(cells: Sequence[Cell]) -> None:
    """Write the cells, and the table of the document. Effects: as said."""
    lines = (json.dumps(asdict(one)) for one in cells)
    RESULT.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    text = DOCUMENT.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    DOCUMENT.write_text(before + BEGIN + shown(cells) + END + after)


def shown(cells: Sequence[Cell]) -> str:
    """Return the table of the document: a line for each reader."""
    rows: dict[str, dict[str, str]] = {}
    for cell in cells:
        rows.setdefault(cell.reader, {})[cell.table] = SHOWN[cell.verdict]
    lines = [["reader", *TABLES], ["---"] * (1 + len(TABLES))]
    lines += [[name, *(row.get(title, "") for title in TABLES)] for name, row in rows.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
