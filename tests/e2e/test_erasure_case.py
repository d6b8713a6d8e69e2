"""A case from the request to the proof, as the privacy officer's page shows it at each step."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from tests.e2e.command import Answer, call
from tests.log_builder import START_MS, LogBuilder

pytestmark = pytest.mark.e2e

DAY_MS, DELAY_MS = 86_400_000, 60_000
NOW_MS = START_MS + DAY_MS
KEYS = {"r-1": "person-ann", "r-2": "person-bob", "r-3": "person-nobody"}
SETTINGS = (
    *("--config", "cleanup.policy=compact", "--config", f"file.delete.delay.ms={DELAY_MS}"),
    *("--config", "delete.retention.ms=1000"),
)


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """A log with two of three persons, requests for all of them, a secret and a key to sign."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [(KEYS["r-1"], "x"), (KEYS["r-2"], "x"), ("other", "x")])
    log.segment(3)
    log.write()
    (tmp_path / "requests").mkdir()
    with (tmp_path / "requests/may.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "topics", "key", "received_at", "deadline"])
        rows.writerows([name, "t", key, NOW_MS, NOW_MS + DAY_MS] for name, key in KEYS.items())
    (tmp_path / "secret").write_bytes(b"s" * 40)
    (tmp_path / "secret").chmod(0o600)
    assert 0 == call("certificate", "--new-key", tmp_path / "key").status
    return tmp_path


def work(place: Path, command: str, request: str, *more: str | Path, now_ms: int) -> Answer:
    """A command about one request."""
    return call(
        command,
        place / "logs",
        *("--requests", place / "requests", "--request", request, "--secret", place / "secret"),
        *(*SETTINGS, "--now", now_ms, *more),
    )


def case(place: Path, request: str, *, now_ms: int = NOW_MS) -> tuple[int, str, str]:
    """The exit status of a certificate, and the first two lines of its page: what became of the
    case, and the next step.
    """
    words = ("--signing-key", place / "key", "--out", place / f"{request}.json")
    status = work(place, "certificate", request, *words, now_ms=now_ms).status
    page = (place / f"{request}.html").read_text()
    assert f"<h1>Erasure case {request}</h1>" in page
    assert not any(key in page for key in KEYS.values())
    first, then = re.findall(r"<p>(?:<strong>)?(.*?)(?:</strong>)?</p>", page)[:2]
    return status, first, then


def test_from_the_request_to_the_proof(place: Path) -> None:
    """Late, erased, proved; the other case stays open; who was never there is not gone."""
    again = "then search again."
    at_once = "Next step: Erase at once what remains, by the job erase or logwright erase"
    open_case = (
        6,
        "Will be late: 1 record left, without a date by which all are gone.",
        f"{at_once} --now-and-for-good; {again}",
    )
    assert open_case == case(place, "r-1")
    assert 8 == work(place, "erase", "r-1", "--yes", now_ms=NOW_MS).status
    status, first, _ = case(place, "r-1")
    assert (6, "Will be late: 3 records left, without a date by which all are gone.") == (
        status,
        first,
    )
    page = (place / "r-1.html").read_text()
    assert "erased by tombstones" in page
    assert "no date: no later cleaning is foreseen" in page
    assert "2025-10-10 08:54:20Z" in page  # when the purge empties the retired files
    at_ms = NOW_MS + 5_000
    erased = work(place, "erase", "r-1", "--now-and-for-good", "--yes", now_ms=at_ms)
    assert 0 == erased.status, erased.err
    gone = "erased at once on 2025-10-10 08:53:25Z, topic t"
    assert (
        0,
        f"Gone from topic t: {gone}; nothing of it was found.",
        "Next step: Close the case, and keep the certificate.",
    ) == case(place, "r-1", now_ms=at_ms)
    assert open_case == case(place, "r-2", now_ms=at_ms)
    status, first, then = case(place, "r-3", now_ms=at_ms)
    assert 0 == status
    assert first.startswith("Never found: nothing that was searched shows that this key was ever")
    assert "check that the key is the one that was meant" in then.lower()


def test_an_unread_file_keeps_the_case_open(place: Path) -> None:
    """Though nothing is found any more, and an erasure is on record."""
    work(place, "erase", "r-1", "--now-and-for-good", "--yes", now_ms=NOW_MS)
    (place / "logs/t-0/letter.txt").write_text("not a log's")
    status, first, then = case(place, "r-1")
    assert (6, "Next step: Search what was not searched: 1 place, named below.") == (status, then)
    assert first.startswith("Not proved: nothing was found where was searched")
    assert "t-0/letter.txt" in (place / "r-1.html").read_text()


def test_a_request_that_has_not_landed_is_refused(place: Path) -> None:
    """By its id."""
    answer = work(place, "find", "r-9", now_ms=NOW_MS)
    assert 2 == answer.status
    assert "there are no stored requests with the ids r-9." in answer.err
