"""The page of decoding has what there is, and its examples work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logwright.config.decoding import default_decoding
from logwright.config.policies import check_policies
from logwright.config.spec import FORMATS
from logwright.decode.internal_messages import TYPES
from logwright.decode.make import make_decoder
from tests.tidy.trees import ROOT

PAGE = (ROOT / "docs/decoding.md").read_text()


@pytest.mark.parametrize("text", re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
def test_policies(text: str, tmp_path: Path) -> None:
    """The examples are policies without problems."""
    (tmp_path / "schemas").mkdir()
    (tmp_path / "p.yml").write_text(text)
    checked = check_policies(tmp_path)
    assert () == checked.problems
    assert checked.policies is not None
    assert all(entry.table is not None for entry in checked.policies.topics)


def test_formats() -> None:
    """Each format is in the table."""
    (table,) = re.findall(r"^## Formats\n(.*?)^A key", PAGE, re.MULTILINE | re.DOTALL)
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert set(FORMATS) == set(re.findall(r"`([^`]+)`", " ".join(first)))


@pytest.mark.parametrize("topic", TYPES)
def test_columns(topic: str) -> None:
    """Each column of an internal topic is in its row."""
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{topic}` |")]
    decoder = make_decoder(default_decoding(topic), base=Path("/"), topic=topic)
    assert decoder.schema.names[4:] == re.findall(r"`([a-z_]+)`", row.split("|")[2])
