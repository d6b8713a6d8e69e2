"""What docs/tables.md shows of tables that keep themselves up to date is run: its policies are
checked, and its Python reads the tables that they make.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from logwright.config.policies import load_policies
from logwright.config.table import tables_of
from tests.e2e.harness import MARKS
from tests.table_world import place, update, write_logs
from tests.tidy.trees import ROOT

pytestmark = MARKS

PAGE = (ROOT / "docs/tables.md").read_text().partition("## Tables that keep themselves")[2]
SHOWN = "/var/lib/tables/customers"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = [code for kind, code in BLOCK.findall(PAGE) if kind == "python"]
YAML = [code for kind, code in BLOCK.findall(PAGE) if kind == "yaml"]


def test_policies(tmp_path: Path) -> None:
    """The first is a whole file; the others are the table of another entry."""
    whole, *parts = YAML
    others = [
        yaml.safe_dump({"version": 1, "topics": [{"name": "t", **yaml.safe_load(part)}]})
        for part in parts
    ]
    kinds = [("customers", "delta"), ("t", "iceberg"), ("t", "delta")]
    assert len(kinds) == len(YAML)
    for number, text in enumerate((whole, *others)):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "p.yml").write_text(text)
        ((topic, table),) = tables_of(load_policies(directory)).items()
        assert (topic, table.format) == kinds[number]


@pytest.mark.rotates(3)
@pytest.mark.parametrize(("form", "number"), [("parquet", 0), ("delta", 1), ("iceberg", 2)])
def test_reading(
    tmp_path: Path, form: str, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block counts the rows."""
    log_dir = write_logs(tmp_path / "logs", {0: [(f"k{key}", "v") for key in range(17)]})
    where = place(form, tmp_path / "table", identifier=IDENTIFIER if form == "iceberg" else None)
    update(where, log_dir)
    assert 3 == len(PYTHON)
    exec(PYTHON[number].replace(SHOWN, str(tmp_path / "table")), {})  # noqa: S102 - of our page
    assert "17" in capsys.readouterr().out


IDENTIFIER = "latest_state.customers"
