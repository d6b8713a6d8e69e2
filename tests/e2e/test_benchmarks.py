"""The benchmarks run: what they measure is nobody's business here, that they can is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main

SCALE = "0.005"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The logs of this module's runs."""
    return tmp_path_factory.mktemp("logs")


def run(*words: str | Path) -> str:
    """One command, in this process; what it prints."""
    result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert 0 == result.exit_code, result.output
    return result.stdout


def a_page(directory: Path) -> Path:
    """One that a command can put its section into. Effects: writes it."""
    page = directory / "performance.md"
    page.write_text("# Performance\n\n## Machine\n\nAny.\n")
    return page


@pytest.mark.rotates(6)
@pytest.mark.e2e
@pytest.mark.oracle
def test_compare_writes_a_page_and_a_picture(work: Path, tmp_path: Path) -> None:
    """One round of one log: the table has Kafka's figures and ours."""
    options = ("--scale", SCALE, "--rounds", "1", "--cases", "txn", "--work", work)
    printed = run("compare", *options, "--out", tmp_path)
    page = (tmp_path / "performance.md").read_text()
    assert "| txn: transactions, idempotent producers, tombstones |" in printed
    assert all(line in page for line in printed.splitlines())
    assert "</svg>" in (tmp_path / "performance.svg").read_text()
    assert ["txn"] == [path.name.split("-")[0] for path in work.iterdir() if path.is_dir()]


@pytest.mark.e2e
@pytest.mark.oracle
def test_profile_names_every_stage_that_ran(work: Path) -> None:
    """Of a compressed log that is all of them, and the engine is restored."""
    from logwright.rewrite import copy  # noqa: PLC0415 -- looked at before and after

    before = copy.copy_batches
    printed = run("profile", "lz4", "--scale", SCALE, "--work", work)
    assert before is copy.copy_batches
    for stage in (
        "header scan",
        "CRC, decode, hash, map, rebuild",
        "copy",
        "fsync",
        "records",
    ):
        assert f"  {stage} " in printed, stage


@pytest.mark.rotates(6)
@pytest.mark.e2e
@pytest.mark.oracle
def test_kernels_are_timed_one_by_one(work: Path) -> None:
    """Each has a speed."""
    printed = run("kernels", "--scale", SCALE, "--work", work)
    assert 2 * 7 == printed.count(" M records/s")
    assert 2 * 4 == sum(line.endswith("MB/s") for line in printed.splitlines())


@pytest.mark.e2e
@pytest.mark.oracle
@pytest.mark.nightly
def test_scale_measures_each_dimension(work: Path, tmp_path: Path) -> None:
    """Small: the budget holds all keys, so they are read once."""
    page = a_page(tmp_path)
    sizes = ("--partitions", "3", "--sweep", "3", "--keys", "20000")
    long = ("--growth", "0.001,0.002", "--segments", "5,9", "--rounds", "1")
    printed = run("scale", *sizes, *long, "--work", work, "--out", tmp_path)
    assert printed.strip() in page.read_text()
    rows = [line.split("|")[1].strip() for line in printed.splitlines()[2:]]
    assert 12 == len(rows)
    assert "from 5 segments to 9 segments, for each segment more" in rows
    assert "1 reads of the keys, up to the first uncleanable offset: True" in printed


@pytest.mark.e2e
@pytest.mark.oracle
@pytest.mark.nightly
def test_sweeps_are_compared_with_as_many_threads_of_kafka(work: Path, tmp_path: Path) -> None:
    """Every row has a ratio."""
    page = a_page(tmp_path)
    options = ("--scale", "0.001", "--rounds", "1", "--work", work)
    printed = run("spark", *options, "--out", tmp_path)
    assert printed.strip() in page.read_text()
    assert 4 == sum("**" in line for line in printed.splitlines())


@pytest.mark.e2e
@pytest.mark.oracle
@pytest.mark.spark
@pytest.mark.nightly
def test_topics_are_read_next_to_consumers_of_a_broker(work: Path, tmp_path: Path) -> None:
    """Every way of reading has its figures, and the rows of Spark's own source are as many."""
    page = a_page(tmp_path)
    sizes = ("--scale", "0.001", "--keys", "20000", "--growth", "0.001,0.002", "--update", "0.01")
    options = ("--cases", "u100,lz4-1k", "--rounds", "1", "--work", work, "--out", tmp_path)
    printed = run("tables", *sizes, *options)
    assert printed.strip() in page.read_text()
    assert 2 * 2 * 2 == sum("**" in line for line in printed.splitlines())
    rows = [line.split("|")[1].strip() for line in printed.splitlines() if "|" in line]
    assert "iceberg table of 0.01 GB, update 3" in rows
    assert "0.002 GB of the same keys: the latest state, map of 128 MiB" in rows


@pytest.mark.e2e
@pytest.mark.oracle
@pytest.mark.spark
@pytest.mark.nightly
def test_streams_are_compared_with_one_that_reads_nothing(work: Path, tmp_path: Path) -> None:
    """And the broker sends something to Spark's own source, and nothing to ours."""
    page = a_page(tmp_path)
    options = ("--scale", "0.001", "--cases", "u100", "--rounds", "1", "--work", work)
    printed = run("streams", *options, "--out", tmp_path)
    assert printed.strip() in page.read_text()
    rows = [line.split("|") for line in printed.splitlines() if line.startswith("| 100 B")]
    wall, cpu, served = [[cell.strip() for cell in row[1:-1]] for row in rows]
    assert all(cell.startswith("**") for cell in (*wall[4:], *cpu[4:]))
    assert int(served[5].replace(",", "")) > 500_000
    assert int(served[6]) > 0
    assert ["0", "0"] == served[7:]


@pytest.mark.e2e
@pytest.mark.oracle
def test_erase_compares_with_a_cleaning(work: Path) -> None:
    """Of the same log in the same run: what was erased, and the seconds of each stage."""
    printed = run("erase", "--scale", SCALE, "--keys", "50", "--cases", "lz4", "--work", work)
    cells = [cell.strip() for cell in printed.splitlines()[-1].strip("|").split("|")]
    assert ("`lz4`", "50") == (cells[0], cells[2])
    assert int(cells[3].replace(",", "")) >= 50
    assert all(float(cell) >= 0 for cell in cells[5:])


@pytest.mark.rotates(6)
@pytest.mark.e2e
@pytest.mark.oracle
def test_find_has_a_row_for_each_number_of_keys(work: Path) -> None:
    """Next to Kafka's own dump, which finds the same records, except with more keys than grep
    takes; and a last row for the whole search with one thread and with two.
    """
    printed = run("find", "--scale", SCALE, "--rounds", "1", "--cases", "u100", "--work", work)
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| u100")]
    *rows, search = rows
    assert ["1", "1,000", "1,000,000"] == [row[1] for row in rows]
    assert all(float(row[3]) > 0 for row in rows)
    assert "-" == rows[2][5]
    assert all(float(cell.strip(" |")) >= 0 for cell in search[1:])


@pytest.mark.e2e
@pytest.mark.oracle
@pytest.mark.nightly
def test_beside_compares_clients_with_and_without_reading(work: Path) -> None:
    """The throughput of clients in one run, and how many connections the reading made: none."""
    printed = run("beside", "--records", "5000", "--rounds", "1", "--work", work)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in printed.splitlines()]
    alone, reads, throttled = rows[-3:]
    assert ["nobody reads", "1.00", "1.00", "0"] == [alone[0], alone[2], alone[4], alone[-1]]
    for row in (reads, throttled):
        assert all(float(cell) > 0 for cell in row[1:5])
        assert "0" == row[-1]


@pytest.mark.rotates(6)
@pytest.mark.e2e
@pytest.mark.oracle
def test_the_requests_of_logs_in_a_bucket(work: Path) -> None:
    """Each operation has some, of logs of one segment."""
    printed = run("bucket-costs", "--scale", SCALE, "--work", work)
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines() if "|" in line][2:]
    assert {"upload", "plan", "find", "latest", "verify", "clean"} <= {row[0] for row in rows}
    assert all(int(row[3]) + int(row[4]) > 0 for row in rows)


@pytest.mark.e2e
def test_the_plan_of_many_segments_in_a_bucket(work: Path) -> None:
    """Each of them is looked at, and half of the logs are due for each policy."""
    printed = run("petabyte", "--logs", "4", "--segments", "150", "--work", work)
    row = [line.strip("| ").split(" | ") for line in printed.splitlines() if "|" in line][-1]
    assert ["0.00 PB", "4", "600"] == [cell.strip() for cell in row[:3]]
    assert all(float(cell) > 0 for cell in row[3:])
