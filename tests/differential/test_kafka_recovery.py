"""What `logwright recover` leaves is what Kafka 4.3.0's own loader and clean stop left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from logwright.cli.main import main
from tests import fixtures
from tests.comparison import compare_checkpoints, compare_partition, live_files
from tests.differential.oracle_server import OracleServer

CASES = [name for name in fixtures.CASES if "recover" in fixtures.description(name)["ops"]]


def run(*arguments: str) -> None:
    """The command line, in this process."""
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert 0 == done.exit_code, done.output


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_the_outcome_is_kafkas(name: str, tmp_path: Path) -> None:
    """Segments, indexes, snapshots, checkpoints, epochs and modification times: no difference."""
    log_dir = fixtures.copy_before(name, tmp_path)
    case = fixtures.description(name)
    settings = fixtures.settings(name)
    now = str(case["now"])
    for op in case["ops"]:
        options = ["--like-kafka", "--yes", "--now", now, *settings]
        arguments = options if op == "recover" else fixtures.clean_arguments(name)
        run(op, str(log_dir), "t-0", *arguments)
    later = str(case["now"] + 60_000)
    run("purge", str(log_dir), "t-0", *settings, "--now", later, "--yes")
    assert [] == fixtures.compare_after(name, log_dir)
    left = [path.name for path in (log_dir / "t-0").iterdir()]
    assert [] == [each for each in left if each.endswith((".deleted", ".cleaned", ".swap"))]
    assert ".logwright" not in left


ODD_SIZES = [(".index", 3), (".index", -3), (".timeindex", 5), (".timeindex", -5)]


@pytest.mark.rotates(4)
@pytest.mark.oracle
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("segment", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize(("suffix", "change"), ODD_SIZES)
def test_index_that_is_no_whole_number_of_entries(
    server: OracleServer, tmp_path: Path, suffix: str, change: int, segment: int, *, clean: bool
) -> None:
    """Kafka trims those of the last segment when it closes it, and leaves the others."""
    case = fixtures.description("basic-none")
    ours = fixtures.copy_before("basic-none", tmp_path)
    path = sorted((ours / "t-0").glob("*.log"))[segment].with_suffix(suffix)
    content = path.read_bytes()
    path.write_bytes(content + bytes(change) if change > 0 else content[:change])
    if not clean:
        (ours / ".kafka_cleanshutdown").unlink()
        (ours / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 900000\n")
    kafkas = tmp_path / "kafkas"
    shutil.copytree(ours, kafkas, copy_function=shutil.copy2)
    request = {
        "request": "recover",
        "logDir": str(kafkas),
        "topicPartition": "t-0",
        "config": dict(fixtures.partition_of("basic-none").config),
        "now": case["now"],
        "producerIdExpirationMs": case["producerIdExpirationMs"],
    }
    assert "loadFailed" not in server.ask(request)
    run("recover", str(ours), "--like-kafka", "--yes", *fixtures.settings("basic-none"))
    expected, actual = live_files(kafkas / "t-0"), live_files(ours / "t-0")
    assert expected.keys() == actual.keys()
    assert [] == [
        name for name in expected if expected[name].read_bytes() != actual[name].read_bytes()
    ]


@pytest.mark.rotates(4)
@pytest.mark.oracle
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("start", [0, 70])
def test_a_partition_without_segments(
    server: OracleServer, tmp_path: Path, start: int, *, clean: bool
) -> None:
    """Kafka makes an empty segment at the log start offset."""
    ours = fixtures.copy_before("basic-none", tmp_path)
    shutil.rmtree(ours / "t-0")
    (ours / "t-0").mkdir()
    # Kafka makes an empty one for whichever log it opens.
    (ours / "t-0" / "leader-epoch-checkpoint").touch()
    (ours / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    (ours / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    if not clean:
        (ours / ".kafka_cleanshutdown").unlink()
    kafkas = tmp_path / "kafkas"
    shutil.copytree(ours, kafkas, copy_function=shutil.copy2)
    assert "loadFailed" not in server.ask(
        {
            "request": "recover",
            "logDir": str(kafkas),
            "topicPartition": "t-0",
            "config": {},
            "now": 1,
            "producerIdExpirationMs": 1,
        }
    )
    run("recover", str(ours), "--like-kafka", "--yes", "--now", "1")
    assert (ours / "t-0" / f"{start:020d}.log").exists()
    assert [] == compare_partition(kafkas, ours, "t-0")
    assert [] == compare_checkpoints(kafkas, ours, "t-0")
