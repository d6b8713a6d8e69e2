"""A person whose only trace is the path of a table's file is found, and no output repeats her."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.e2e.command import call
from tests.log_builder import LogBuilder

PERSON = "ann@example.com"
WHERE = "customer=ann%40example.com"


def write(path: Path, number: int) -> None:
    """A file in which nobody is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"key": pa.array([b"order"]), "n": [number]}), path)


def test_a_path_with_a_person(tmp_path: Path) -> None:
    """It is shown as an HMAC, and found again by what the file has."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("eve", "v")])
    builder.write()
    for number, name in enumerate((WHERE, "customer=bob", f"notes/of-{PERSON}")):
        write(tmp_path / "t" / name / "x.parquet", number)
    (tmp_path / "t/link-to-ann@example.com").symlink_to("x")
    (tmp_path / "keys").write_text(f"{PERSON}\n")
    (tmp_path / "secret").write_text("0123456789abcdef" * 4)
    (tmp_path / "secret").chmod(0o600)
    words = (
        "--keys",
        tmp_path / "keys",
        "--secret",
        tmp_path / "secret",
        "--table",
        tmp_path / "t",
    )
    searched = call("find", tmp_path / "logs", *words, "--output", "json")
    assert 9 == searched.status
    assert "hidden-" in searched.out
    assert 0 == call("certificate", "--new-key", tmp_path / "key").status
    made = tmp_path / "made.json"
    given = (*words, "--signing-key", tmp_path / "key", "--out", made)
    issued = call("certificate", tmp_path / "logs", *given)
    page = made.with_suffix(".html").read_text()
    shown = [searched.out, searched.err, issued.out, issued.err, made.read_text(), page]
    for person in (PERSON, "ann%40example.com"):
        assert not [text for text in shown if person in text]
    certificate = json.loads(made.read_text())["certificate"]
    paths = [file["path"]["text"] for file in certificate["manifest"] if file["directory"] == 1]
    assert ["customer=bob/x.parquet"] == [path for path in paths if "hidden-" not in path]
    (request,) = certificate["requests"]
    assert ("not proved", 3) == (request["state"], request["found"])  # the link is not followed
    public = ("--public-key", tmp_path / "key.pub")
    places = (tmp_path / "logs", tmp_path / "t")
    sums = ("--sums", tmp_path / "sums", "--directory", 2)
    assert 0 == call("verify-certificate", made, *public, *sums, *places).status
    assert "customer=bob/x.parquet" in (tmp_path / "sums").read_text()
    assert "hmac" not in (tmp_path / "sums").read_text()
    write(tmp_path / "t" / WHERE / "x.parquet", 77)
    assert 6 == call("verify-certificate", made, *public, *places).status
