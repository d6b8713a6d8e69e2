"""The page of cases: what it says, that it claims nothing too good, and that it is only text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from logwright.erasure.account import Account
from logwright.erasure.case.certified import (
    CERTIFIED,
    add_certified,
    certified_by,
    read_certified,
)
from logwright.erasure.case.make import (
    Searched,
    page_of_certificate,
    pages_of_search,
    unread_of,
)
from logwright.erasure.case.model import CasePage, Certified, Signed, Unread
from logwright.erasure.case.next_step import of_page
from logwright.erasure.case.page import SHOWN, SHOWN_UNREAD, case_html
from logwright.erasure.certificate.model import (
    Asked,
    Certificate,
    Cluster,
    Deed,
    NotRead,
    PathName,
    Remains,
    Replicas,
    State,
    Versions,
)
from logwright.erasure.find.model import Finding
from logwright.erasure.find.result import Unsearched
from logwright.erasure.request import Request
from logwright.errors import UnreadableFile
from logwright.format.names import TopicPartition
from logwright.state.erasure_mark import Erasure
from tests.unit.erasure.certificate.samples import GONE, LEFT, NOW_MS, SECRET, finding, sample

DAY_MS = 86_400_000
PATH = "t-0/00000000000000000000.log"


def certificate_html(
    made: Certificate,
    *,
    file_name: str = "c",
    file_sha256: str = "0" * 64,
) -> str:
    """The page of a certificate."""
    signed = Signed(certificate=made, file_name=file_name, file_sha256=file_sha256)
    return case_html(page_of_certificate(signed))


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


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
    for text in (GONE, LEFT[:16], "will be late", "What this does not prove", "ab" * 32):
        assert text in page
    assert "&lt;script&gt;alert(1)&lt;" in page


def hostile(number: int) -> str:
    """A text that would be an element, end a tag or an attribute."""
    return f"<em{number}>'\"&"


def test_every_text_of_the_page_is_escaped(tmp_path: Path) -> None:
    """Whatever field it is in, and it can be read as it is."""
    text = map(hostile, range(100, 200))
    path, topics = PathName(text=next(text)), next(text)
    of_a_request = {"received_at_ms": None, "deadline_ms": None, "gone_by_ms": None, "found": 0}
    of_a_record = {"offset": 0, "batch_position": 0, "kind": "live", "gone_by_ms": None}
    certificate = sample(tmp_path / "logs")
    (directory,) = certificate.directories
    cluster = Cluster(cluster_id=next(text), end_offset=1, snapshot=None)
    made = certificate.model_copy(
        update={
            "versions": Versions(logwright=next(text), python="3", cryptography="50"),
            "directories": (
                directory.model_copy(update={"path": next(text), "cluster": cluster}),
                directory.model_copy(update={"path": "", "path_hex": next(text).encode().hex()}),
            ),
            "requests": (
                Asked(
                    id=next(text),
                    hmac=GONE,
                    topics=topics,
                    state="gone",
                    why=next(text),
                    deeds=(Deed(topic=next(text), at_ms=1, what=next(text), of_key=True),),
                    **of_a_request,
                ),
            ),
            "remains": (
                Remains(
                    **{"request": 0, "directory": 0, "partition": 0, "path": path, **of_a_record},
                    topic=next(text),
                    place=next(text),
                    rule=next(text),
                ),
            ),
            "not_read": (NotRead(directory=0, path=path, why=next(text), topic=next(text)),),
            "hard_linked": (NotRead(directory=0, path=path, why=next(text), topic=next(text)),),
            "replicas_not_searched": (Replicas(topic=topics, brokers=(1,)),),
            "not_seen": (next(text),),
            "issuer": next(text),
            "manifest": (certificate.manifest[0].model_copy(update={"path": path}),),
        }
    )
    parser = _Tags()
    parser.feed(certificate_html(made, file_name=next(text), file_sha256=next(text)))
    used = int(next(text)[3:6])
    assert {"em"} & {tag[:2] for tag in parser.tags} == set()
    harmless = {"class", "lang", "charset", "name", "content", "http-equiv"}
    harmless |= {"scope", "tabindex", "role", "aria-label", "colspan"}
    assert set() == set(parser.attributes) - harmless
    shown = "".join(parser.texts)
    assert [] == [number for number in range(100, used) if hostile(number) not in shown]


def test_long_tables_of_the_page_end_with_what_is_left_out(tmp_path: Path) -> None:
    """The worst requests come first."""
    certificate = sample(tmp_path / "logs", finding(rule=""))
    good, bad = sorted(certificate.requests, key=lambda request: request.found)
    made = certificate.model_copy(update={"requests": (good,) * (SHOWN + 1234) + (bad,)})
    page = certificate_html(made)
    assert 2 == page.count("And 1,235 more.")
    assert page.index(f"<code>{LEFT}</code>") < page.index(f"<code>{GONE}</code>")
    assert SHOWN == page.count(f"<code>{LEFT}</code>") + page.count(f"<code>{GONE}</code>")


def test_page_of_a_clean_directory(tmp_path: Path) -> None:
    """It says so in one sentence."""
    page = certificate_html(sample(tmp_path / "logs"))
    assert "<strong>2 gone from their topics</strong>" in page
    assert re.search(r'class="result good"', page)


REQUEST = Request(
    id="r-2041",
    topics="t",
    hmac=bytes.fromhex(LEFT),
    filter=None,
    received_at_ms=NOW_MS - DAY_MS,
    deadline_ms=NOW_MS + DAY_MS,
)
NOT_READ = Unread(where="/logs/t-0/letter.txt", topic="t", why="it is not records")
RECORD = finding(request=0)
ON_RECORD = {"t": {f"{SECRET}:{LEFT[:16]}": Erasure(NOW_MS - DAY_MS, "at once")}}


def page_of(
    *findings: Finding,
    unread: Sequence[Unread] = (),
    topics: Sequence[str] = ("t",),
    deadline_ms: int = NOW_MS + DAY_MS,
    erased: bool = False,
) -> CasePage:
    """The page of one request, of a search of one directory."""
    account = Account(
        topics=frozenset(topics),
        erased=ON_RECORD if erased else {},
        secret=SECRET,
        unsearched=tuple(each.topic for each in unread),
    )
    (page,) = pages_of_search(
        [replace(REQUEST, deadline_ms=deadline_ms)],
        [Searched("/logs", 12, findings)],
        unread,
        account,
        now_ms=NOW_MS,
        version="1",
    )
    return page


def result(page: CasePage) -> tuple[str, str, str]:
    """The class of the result at the top, what it says, and the next step."""
    top = re.search(
        r'<div class="result (\w*)">\s*<p><strong>(.*?)</strong></p>\s*<p>Next step: (.*?)</p>',
        case_html(page),
        re.DOTALL,
    )
    assert top is not None
    return top[1], top[2], top[3]


ERASE = "Erase at once what remains, by the job erase or logwright erase --now-and-for-good"
STATES: dict[State, tuple[CasePage, str, str, str]] = {
    "gone": (
        page_of(erased=True),
        "good",
        (
            "Gone from topic t: erased at once on 2023-11-13 22:13:20Z, topic t; nothing of it was"
            " found."
        ),
        "Make the certificate, by the job erase or logwright certificate.",
    ),
    "not found": (
        page_of(),
        "good",
        "Never found: nothing that was searched shows that this key was ever here.",
        (
            "Check that the key is the one that was meant; then make the certificate, by the job"
            " erase or logwright certificate."
        ),
    ),
    "in time": (
        page_of(RECORD),
        "",
        "Goes in time: 1 record left, the last until 2023-11-14 23:13:20Z.",
        (
            "Wait until 2023-11-14 23:13:20Z, before the deadline of 2023-11-15 22:13:20Z, while"
            " maintenance runs; then search again."
        ),
    ),
    "will be late": (
        page_of(RECORD, replace(RECORD, offset=9, rule="", gone_by_ms=None)),
        "bad",
        "Will be late: 2 records left, without a date by which all are gone.",
        f"{ERASE}; then search again.",
    ),
    "missed": (
        page_of(RECORD, deadline_ms=NOW_MS),
        "bad",
        "Deadline missed: 1 record left, all gone by 2023-11-14 23:13:20Z.",
        f"{ERASE}; then search again.",
    ),
    "not proved": (
        page_of(erased=True, unread=[NOT_READ]),
        "bad",
        (
            "Not proved: nothing was found where was searched; 1 place that could hold its records"
            " not searched."
        ),
        "Search what was not searched: 1 place, named below.",
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_status_and_next_step_come_first(state: State) -> None:
    """One sentence each, for every state that a request with a deadline can have."""
    page, *expected = STATES[state]
    assert state == page.cases[0].state
    assert tuple(expected) == result(page)


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        (page_of(erased=True, unread=[NOT_READ]), "/logs/t-0/letter.txt"),
        (page_of(erased=True, unread=[replace(NOT_READ, topic="")]), "/logs/t-0/letter.txt"),
        (page_of(erased=True, topics=["u"]), "correct the topics"),
        (
            page_of(replace(RECORD, path="t-0/old.log.bak", rule="", gone_by_ms=None)),
            "t-0/old.log.bak",
        ),
        (page_of(replace(RECORD, path="", place="table", topic="", rule="")), "table"),
    ],
)
def test_a_page_never_says_done_of_what_may_be_there(page: CasePage, shown: str) -> None:
    """A place that was not looked at, a topic without a log, a key in a file that an erasure
    leaves: the page is not good, and names it.
    """
    html = case_html(page)
    colour, status, step = result(page)
    assert "good" != colour
    assert not re.match("Gone|Never found|Nothing", status)
    assert "lose the case" not in step
    assert "ake the certificate" not in step
    assert shown.lower() in html.lower()


def test_what_an_erasure_leaves_is_removed_by_hand() -> None:
    """The next step names it."""
    page = page_of(replace(RECORD, path="t-0/old.log.bak", rule="", gone_by_ms=None, place="other"))
    assert f"{ERASE}; remove by hand what that leaves: other of t-0; then search again." == of_page(
        page
    )
    assert "an erasure leaves it" in case_html(page)


def test_a_deleted_log_does_not_show_that_the_key_was_there(tmp_path: Path) -> None:
    """The status does not begin with gone; the deletion is named in it, and in what was done."""
    made = sample(tmp_path / "logs", erased={}, deleted=frozenset("t"))
    single = made.model_copy(update={"requests": made.requests[:1]})
    page = certificate_html(single)
    never = "Never found: nothing that was searched shows that this key was ever here"
    why = "a log was deleted, and whether this key was in it is not known"
    assert f"<strong>{never}; {why}, topic t.</strong>" in page
    assert f"<td>{why}</td>" in page
    step = "Check that the key is the one that was meant; then close the case, and keep the"
    assert f"{step} certificate." in page


def test_places_with_their_dates() -> None:
    """Each directory, also an empty one; each place of it with the last date; no key and no HMAC
    of a search.
    """
    retired = replace(RECORD, place="deleted", path=f"{PATH}.deleted", rule="file.delete.delay.ms")
    page = page_of(
        RECORD,
        replace(retired, gone_by_ms=NOW_MS + 5_000),
        replace(retired, offset=9, gone_by_ms=NOW_MS + 7_000),
    )
    assert [
        ("t-0", "deleted", 2, NOW_MS + 7_000),
        ("t-0", "segment", 1, NOW_MS + 3_600_000),
    ] == [(left.log, left.place, left.records, left.gone_by_ms) for left in page.left]
    html = case_html(page)
    assert "2023-11-14 22:13:27Z" in html
    assert LEFT[:16] not in html
    assert "none was made of this search." in html
    assert "12 files" in case_html(page_of())


def test_tombstones_without_a_foreseen_cleaning() -> None:
    """There is no date, which is said as elsewhere."""
    page = page_of(replace(RECORD, kind="tombstone", rule="delete.retention.ms", gone_by_ms=None))
    assert "no date: no later cleaning is foreseen" in case_html(page)


def test_what_was_done() -> None:
    """The last first; without a record it says so."""
    assert "2023-11-13 22:13:20Z</td><td>t</td><td>erased at once</td>" in case_html(
        page_of(erased=True)
    )
    assert "Nothing: no erasure, and no deletion of a log, is on record" in case_html(page_of())


def test_many_places_that_were_not_searched_are_folded() -> None:
    """The first are shown, with their range."""
    part = Unsearched(
        partition=TopicPartition("t", 0), path=PATH, position=7, bytes=1_000, problem="a wrong CRC"
    )
    unread = list(unread_of("/logs", [part] * (SHOWN_UNREAD + 3)))
    html = case_html(page_of(unread=unread))
    assert f"/logs/{PATH}, bytes 7 to 1,007" in html
    assert "3 more places that were not searched" in html


class _Structure(HTMLParser):
    """Headings, cells of headers without a scope, and elements that scroll without a name."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "th" and known.get("scope") not in ("col", "row"):
            self.faults.append("a th without a scope")
        if known.get("class") == "scroll" and not (known.get("aria-label") and "tabindex" in known):
            self.faults.append("a table that the keyboard cannot scroll")


def test_the_page_can_be_read_by_keyboard_and_ear(tmp_path: Path) -> None:
    """One first heading, no level left out, a scope for every header; what scrolls has the focus
    and a name.
    """
    for html in (
        certificate_html(sample(tmp_path / "logs", finding())),
        case_html(page_of(RECORD, unread=[NOT_READ])),
    ):
        structure = _Structure()
        structure.feed(html)
        assert [] == structure.faults
        assert [1] == structure.headings[:1]
        assert {2} == set(structure.headings[1:])


def luminance(colour: str) -> float:
    """As WCAG 2.2 defines it."""
    full = colour if len(colour) == 6 else "".join(2 * digit for digit in colour)
    parts = [int(full[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1, 2], ids=["light", "dark", "printed"])
def test_texts_have_contrast(theme: int) -> None:
    """At least 4.5 to 1 (WCAG 2.2, 1.4.3), in each theme."""
    styles = re.findall(r":root \{ (.*?) \}", case_html(page_of()))
    themes = [dict(re.findall(r"--(\w+): #([0-9a-f]+)", style)) for style in styles]
    colours = themes[theme]
    assert themes[0].keys() == colours.keys()
    paper = luminance(colours["paper"])
    for name in ("ink", "soft", "bad", "good", "focus"):
        text = luminance(colours[name])
        ratio = (max(text, paper) + 0.05) / (min(text, paper) + 0.05)
        assert ratio >= 4.5, (name, ratio)


@pytest.mark.parametrize(
    ("state", "topics", "same"),
    [("gone", "t", True), ("in time", "t", False), ("gone", "u", False)],
)
def test_the_last_certificate_is_named(
    tmp_path: Path, state: State, topics: str, *, same: bool
) -> None:
    """Only one that says the same of the same topics closes the case."""
    last = Certified(
        path="/c/erase-1.json",
        sha256="ab" * 32,
        topics=topics,
        state=state,
        issued_at_ms=NOW_MS - DAY_MS,
    )
    add_certified(tmp_path, {"r-2041": last, "r-1": last})
    page = replace(page_of(erased=True), last=read_certified(tmp_path)["r-2041"])
    html = case_html(page)
    assert "The last one, of 2023-11-13 22:13:20Z, says:" in html
    assert "/c/erase-1.json" in html
    assert same == ("So does this search." in html)
    step = "Close the case, and keep the certificate."
    other = "Make the certificate, by the job erase or logwright certificate."
    assert (step if same else other) == of_page(page)


def test_the_last_certificate_of_each_request_is_kept(tmp_path: Path) -> None:
    """A later one replaces it; a damaged file is named."""
    assert {} == read_certified(tmp_path)
    made = sample(tmp_path / "logs")
    signed = Signed(certificate=made, file_name="c.json", file_sha256="ab" * 32)
    page = page_of_certificate(signed)
    add_certified(tmp_path, certified_by(page, Path("/c/c.json")))
    add_certified(tmp_path, certified_by(replace(page, cases=page.cases[:1]), Path("/c/d.json")))
    known = read_certified(tmp_path)
    assert {"r-0": "/c/d.json", "r-1": "/c/c.json"} == {
        name: entry.path for name, entry in known.items()
    }
    (tmp_path / CERTIFIED).write_text("[]")
    with pytest.raises(UnreadableFile, match="not a list of certificates"):
        read_certified(tmp_path)
