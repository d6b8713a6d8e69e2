"""What a remedy says of a broker is run by a test against Kafka's own code, or says nothing of it.

Without a line here a new remedy that speaks of a broker or of Kafka fails: write its test first.
"""

from __future__ import annotations

import ast
import re

from tests.tidy.trees import ROOT

KAFKAS = re.compile(r"\bbrokers?\b|\bKafka")
REMEDIES = "tests/differential/test_remedies.py::"
PROVED = {
    "a broker at its start, then rebuilds both": f"{REMEDIES}test_a_wrong_index",
    "so does a broker that finds a segment without its .index": f"{REMEDIES}test_a_wrong_index",
    "so does a broker that finds": f"{REMEDIES}test_a_wrong_index",
    "a broker does not start with it. Restore it, or run": f"{REMEDIES}test_a_malformed_checkpoint",
    "deletes such a snapshot": f"{REMEDIES}test_a_malformed_snapshot",
    "start a broker on": f"{REMEDIES}test_an_unclean_directory",
    "a broker fails on it, or takes it": f"{REMEDIES}test_a_file_that_no_broker_writes",
    "A broker would drop the whole log": f"{REMEDIES}test_a_log_that_ends_below_its_start",
    "starts without .kafka_cleanshutdown": f"{REMEDIES}test_a_bad_tail",
    "Kafka's loading fails here; recover it": f"{REMEDIES}test_zeros_after_a_clean_stop",
    "a broker adds a directory.id": f"{REMEDIES}test_meta_properties",
    "a broker then renames the log": f"{REMEDIES}test_partition_metadata",
    "A broker that starts takes the log for what is there": (
        "tests/differential/test_start_catalogue.py::test_a_damage"
    ),
    "the controller then takes its stop for an unclean one": (
        "tests/e2e/test_cluster_promises.py::test_what_all_acknowledged_stays"
    ),
    "Kafka's loading fails on it as well": "tests/property/test_damaged_logs.py::same_as_kafka",
    "Kafka's loading fails here as well": "tests/property/test_damaged_logs.py::same_as_kafka",
}
"""Part of a remedy → the test that runs it."""
NO_CLAIM = (
    "Its brokers maintain it.",
    "Stop the broker that uses this log directory",
    "Give a directory of a broker's log.dirs.",
    "Run it as the broker's user",
    "Give log directories of one broker",
    "Give log directories of brokers that have replicas",
    "Give the log directories of other brokers.",
    "Continue with that broker first.",
    "See the broker's own log.",
    "stop the brokers and run it then.",
    "Search without --forecast, or stop the broker.",
    "Kafka refuses it too. Write tombstones",
    "Kafka cannot open it either; restore it.",
    "each controller and each broker has the metadata log",
    "Give a directory of a broker, too.",
)
"""Remedies that name a broker without saying what one would do to the files. The last two: Kafka's
rule for DeleteRecords, and a file above 2 GiB, which no index of Kafka's can point into."""


def texts() -> list[tuple[str, str]]:
    """(place, text) of each remedy in the sources; of an unknown value the text is empty."""
    remedies = []
    for path in sorted((ROOT / "logwright").rglob("*.py")):
        tree = ast.parse(path.read_text())
        named = {
            node.target.id: node.value
            for node in tree.body
            if isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.value is not None
        }
        remedies += [
            (f"{path.relative_to(ROOT)}:{node.value.lineno}", text_of(node.value, named))
            for node in ast.walk(tree)
            if isinstance(node, ast.keyword) and node.arg == "remedy"
        ]
    return remedies


def text_of(node: ast.expr, named: dict[str, ast.expr]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name):
        return text_of(named[node.id], named) if node.id in named else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(one, named) for one in node.values)
    if isinstance(node, ast.FormattedValue):
        return text_of(node.value, named)
    if isinstance(node, ast.IfExp):
        return f"{text_of(node.body, named)} {text_of(node.orelse, named)}"
    return ""


def test_every_claim_about_a_broker_has_a_test() -> None:
    """Each remedy that speaks of one is in the list."""
    spoken = [(place, text) for place, text in texts() if KAFKAS.search(text)]
    assert spoken
    unproved = [
        f"{place}: {text}"
        for place, text in spoken
        if not any(part in text for part in (*PROVED, *NO_CLAIM))
    ]
    assert [] == unproved


def test_the_tests_exist() -> None:
    """A renamed test leaves no line without one."""
    missing = [
        place
        for place in PROVED.values()
        if f"def {place.partition('::')[2]}(" not in (ROOT / place.partition("::")[0]).read_text()
    ]
    assert [] == missing


def test_nobody_is_sent_to_a_broker_that_does_not_start() -> None:
    """No remedy says that a broker ignores a file."""
    assert [] == [place for place, text in texts() if "ignores the file" in text]
