"""Programs of other environments that take part: DuckDB and Spark, which cannot be in this one.

A directory has a file for each: ``duckdb.json``, ``spark.json``, with ``python``, the interpreter
of an environment that has the program, and ``files``: DuckDB's extension delta, or the jars of
Delta and Iceberg for Spark and a driver of SQLite. tests/README.md says how they are made.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.table_sequences import foreign
from tests.table_sequences.others import Act
from tests.table_sequences.world import World

_DUCKDB: Final = {"delta": {"insert": ["INSERT INTO {t} SELECT * FROM {t} LIMIT 3"]}}
_MODE: Final = "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
_CALL: Final = "CALL logwright.system."
_REWRITE: Final = f"{_CALL}{{}}(table => 'latest_state.t', options => map('rewrite-all', 'true'))"
_MERGE: Final = (
    "MERGE INTO {t} a USING (SELECT * FROM {t} LIMIT 5) b"
    " ON a.offset = b.offset AND a.partition = b.partition WHEN MATCHED THEN DELETE"
)
_SPARK: Final = {
    "delta": {
        "insert": ["INSERT INTO {t} SELECT * FROM {t} LIMIT 3"],
        "delete": ["DELETE FROM {t} WHERE offset % 3 = 0"],
        "update": ["UPDATE {t} SET key = 'hacked' WHERE offset > 9"],
        "merge": [
            _MERGE,
        ],
        "optimize": ["OPTIMIZE {t}"],
        "z-order": ["OPTIMIZE {t} ZORDER BY (key)"],
        "purge": ["REORG TABLE {t} APPLY (PURGE)"],
        "vacuum": ["VACUUM {t} RETAIN 0 HOURS"],
        "restore": ["RESTORE TABLE {t} TO VERSION AS OF 0"],
        "constraint": ["ALTER TABLE {t} ADD CONSTRAINT c CHECK (offset < 1000000)"],
        "no constraint": [
            "ALTER TABLE {t} ADD CONSTRAINT c CHECK (offset < 1000000)",
            "ALTER TABLE {t} DROP CONSTRAINT c",
        ],
        "change feed": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed'='true')"],
        "mapping": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='name')"],
        "rename": [
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='name')",
            "ALTER TABLE {t} RENAME COLUMN key TO other",
        ],
        "row tracking": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking'='true')"],
        "times": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps'='true')"],
        "checkpoints": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointPolicy'='v2')"],
        "widening": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening'='true')"],
        "hint": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval'='2')"],
        "column": ["ALTER TABLE {t} ADD COLUMN more STRING"],
    },
    "iceberg": {
        "insert": ["INSERT INTO {t} SELECT * FROM {t} LIMIT 3"],
        "delete": ["DELETE FROM {t} WHERE offset % 3 = 0"],
        "delete by position": [_MODE, "DELETE FROM {t} WHERE offset % 3 = 0"],
        "update": ["UPDATE {t} SET key = value WHERE offset > 9"],
        "merge": [
            _MERGE,
        ],
        "rewrite": [_REWRITE.format("rewrite_data_files")],
        "rewrite deletes": [_REWRITE.format("rewrite_position_delete_files")],
        "rewrite manifests": [f"{_CALL}rewrite_manifests('latest_state.t')"],
        "expire": [f"{_CALL}expire_snapshots(table => 'latest_state.t', retain_last => 1)"],
        "spec": ["ALTER TABLE {t} ADD PARTITION FIELD bucket(4, key)"],
        "spec as it was": [
            "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, key)",
            "ALTER TABLE {t} DROP PARTITION FIELD bucket(4, key)",
        ],
        "order": ["ALTER TABLE {t} WRITE ORDERED BY key"],
        "distribution": ["ALTER TABLE {t} WRITE DISTRIBUTED BY PARTITION"],
        "comment": ["ALTER TABLE {t} ALTER COLUMN offset COMMENT 'words'"],
        "version": ["ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')"],
        "rows of version 3": [
            "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')",
            _MODE,
            "DELETE FROM {t} WHERE offset % 3 = 0",
        ],
        "branch": ["ALTER TABLE {t} CREATE BRANCH b"],
        "column": ["ALTER TABLE {t} ADD COLUMN more STRING"],
        "ORC": [
            "ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default'='orc')",
            _REWRITE.format("rewrite_data_files"),
        ],
    },
}
_STATEMENTS: Final = {"duckdb": _DUCKDB, "spark": _SPARK}
_WEIGHTS: Final = {"duckdb": 4, "spark": 2}


class NotDone(Exception):
    """The program raised an error."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A running program."""

    process: subprocess.Popen[str]

    def run(self, world: World, statements: list[str]) -> None:
        """Run statements. Effects: changes the table.

        Raises:
            NotDone: one of them was not done.
        """
        task = {"form": world.form, "path": str(world.table), "statements": statements}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if answer["error"]:
            raise NotDone(answer["error"])


def _act(engine: Engine, statements: list[str]) -> Act:
    def act(world: World, draw: random.Random) -> None:
        del draw
        world.has_refs |= any("BRANCH" in statement for statement in statements)
        engine.run(world, statements)

    return act


@contextmanager
def engines(directory: Path, scratch: Path) -> Iterator[dict[str, dict[str, tuple[int, Act]]]]:
    """Yield what the programs of a directory do, as `others.OTHERS` has it. Effects: runs them;
    what they say is in a file of the scratch.
    """
    acts: dict[str, dict[str, tuple[int, Act]]] = {}
    with ExitStack() as stack:
        for kind, by_form in _STATEMENTS.items():
            file = directory / f"{kind}.json"
            if not file.exists():
                continue
            content = json.loads(file.read_text())
            output = stack.enter_context((scratch / f"{kind}.txt").open("w"))
            command = [content["python"], str(Path(foreign.__file__)), kind, *content["files"]]
            process = stack.enter_context(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    text=True,
                )
            )
            stack.callback(process.terminate)
            for form, named in by_form.items():
                acts.setdefault(form, {}).update(
                    {
                        f"{kind} {name}": (_WEIGHTS[kind], _act(Engine(process), statements))
                        for name, statements in named.items()
                    }
                )
        yield acts
