"""What a certificate says, its page, and what changed since."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from logwright.erasure.certificate.changes import changes_since
from logwright.erasure.certificate.make import Requested, make_certificate
from logwright.erasure.certificate.model import Certificate
from logwright.erasure.certificate.page import certificate_html
from tests.unit.erasure.certificate.samples import (
    GONE,
    LEFT,
    NOW_MS,
    VERSIONS,
    finding,
    sample,
    searched,
    small_directory,
)


def states(certificate: Certificate) -> dict[str, str]:
    return {one.hmac: one.state for one in certificate.requests}


def test_what_remains_is_named(tmp_path: Path) -> None:
    """With file, rule and time; the request without a finding is gone."""
    made = sample(tmp_path / "logs", finding())
    assert {GONE: "gone", LEFT: "in time"} == states(made)
    (one,) = made.remains
    assert (1, 0, "t-0/00000000000000000000.log", 7, "max.compaction.lag.ms") == (
        one.request,
        one.directory,
        one.path.path,
        one.offset,
        one.rule,
    )
    assert NOW_MS + 3_600_000 == made.requests[1].gone_by_ms


def test_deadline(tmp_path: Path) -> None:
    """One that has passed, and one that will be missed."""
    assert "missed" == states(sample(tmp_path / "logs", finding(), deadline_ms=NOW_MS))[LEFT]
    late = sample(tmp_path / "logs", finding(gone_by_ms=None, rule=""))
    assert "will be late" == states(late)[LEFT]


def test_an_unreadable_file_proves_nothing(tmp_path: Path) -> None:
    """It is named, and nothing is called gone."""
    made = sample(tmp_path / "logs", finding(place="unreadable", rule="a wrong CRC"))
    assert {GONE: "not proved", LEFT: "not proved"} == states(made)
    assert () == made.remains
    assert ["a wrong CRC"] == [one.why for one in made.not_read]


def test_a_link_proves_nothing(tmp_path: Path) -> None:
    """What it leads to was not searched."""
    sample(tmp_path / "logs")
    (tmp_path / "logs/link").symlink_to("/")
    assert {"not proved"} == set(states(sample(tmp_path / "logs")).values())


def test_changes_since(tmp_path: Path) -> None:
    """Added, removed, altered (also with the same size) and same."""
    root = tmp_path / "logs"
    made = sample(root)
    (nothing,) = changes_since(made, [root])
    assert not nothing.any
    assert 3 == nothing.same
    (root / "t-0/00000000000000000000.log").write_bytes(b"FIRST")
    (root / "t-0/.logwright/purge").unlink()
    (root / "new").touch()
    (root / "link").symlink_to("x")
    (found,) = changes_since(made, [root])
    assert ("new",) == found.added
    assert ("t-0/.logwright/purge",) == found.removed
    assert ("t-0/00000000000000000000.log",) == found.altered
    assert ["link"] == list(found.not_read)
    assert (1, True) == (found.same, found.any)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]


def test_page(tmp_path: Path) -> None:
    """Static and escaped: nothing that is named in a log directory becomes HTML."""
    root = tmp_path / "logs"
    sample(root)
    (root / "<script>alert(1)<").touch()
    hit = finding(topic="<b>t", rule="<i>", path="<img src=x onerror=y>", gone_by_ms=None)
    made = sample(root, hit, finding(rule=""))
    page = certificate_html(made, file_name="<c>.json", file_sha256="ab" * 32)
    parser = _Tags()
    parser.feed(page)
    assert not {"script", "img", "b", "i", "c", "link", "iframe"} & set(parser.tags)
    assert not [name for name in parser.attributes if name.startswith("on")]
    assert "http:" not in page
    assert "https:" not in page
    for text in (GONE, LEFT[:16], "will be late", "What this search cannot see", "ab" * 32):
        assert text in page
    assert "&lt;script&gt;alert(1)&lt;" in page


def test_page_of_a_clean_directory(tmp_path: Path) -> None:
    """It says so in one sentence."""
    page = certificate_html(sample(tmp_path / "logs"), file_name="c", file_sha256="0" * 64)
    assert "No record of the 2 requests was found in the 3 files of 1 directory." in page
    assert re.search(r'class="result good"', page)


def test_two_requests_for_one_key(tmp_path: Path) -> None:
    """A record that is found for the one is found for the other, if its topic is asked for."""
    root = tmp_path / "logs"
    small_directory(root)
    asked = [Requested(hmac=LEFT, topics=topics) for topics in ("t", "regex:.*", "u")]
    made = make_certificate(
        asked,
        [searched(root, finding(request=0))],
        now_ms=NOW_MS,
        signing_key_sha256="0" * 64,
        versions=VERSIONS,
    )
    assert ["in time", "in time", "gone"] == [one.state for one in made.requests]
    assert 1 == len(made.remains)


def test_a_byte_pattern(tmp_path: Path) -> None:
    """A value in another key's record is named, and belongs to none of the requests."""
    made = sample(tmp_path / "logs", finding(request=-1, kind="value", rule="", gone_by_ms=None))
    assert {"gone"} == set(states(made).values())
    assert [(-1, "value")] == [(one.request, one.kind) for one in made.remains]
    page = certificate_html(made, file_name="c", file_sha256="0" * 64)
    assert "a byte pattern" in page
    assert 'class="result good"' not in page
