"""Our own pages can be read with any eyes and operated by the keyboard, in a real browser."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from selenium import webdriver

from logwright.erasure.certificate.model import NOT_SEEN
from tests.browser.accessible import LOOKS, Look, open_page, unreached, violations
from tests.browser.site import chromium
from tests.unit.assets.fleet.test_page import ROW, html, saved
from tests.unit.erasure.case.test_page import certificate_html
from tests.unit.erasure.certificate.samples import finding, sample

pytestmark = pytest.mark.browser

FAULTS: Final = """<!DOCTYPE html><html lang="en"><title>faults</title><main><h1>Faults</h1>
<p style="color: #999; background: #fff">pale</p><a href="#seen">seen</a>
<button tabindex="-1">not reached</button><a href="#" style="outline: none">not shown</a></main>"""


def fleet_page(directory: Path) -> Path:
    """The fleet page, with a log in each state."""
    states = ("in order", "due", "refused", "held")
    rows = [
        ROW | {"log": f"orders-{number}", "state": state, "paused": "by kim" * (state == "held")}
        for number, state in enumerate(states)
    ]
    path = directory / "fleet.html"
    path.write_text(html(rows, [saved("clean", 10**9, 10**8)]))
    return path


def certificate(directory: Path) -> Path:
    """The page of a certificate: a request is gone, another one is not."""
    path = directory / "certificate.html"
    path.write_text(certificate_html(sample(directory / "logs", finding())))
    return path


PAGES: Final[tuple[Callable[[Path], Path], ...]] = (fleet_page, certificate)
"""Each writes a page below a directory and returns it."""


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    """One for all pages."""
    with chromium() as opened:
        yield opened


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: f"{look.colours}-{look.width}")
@pytest.mark.parametrize("page", PAGES)
def test_anybody_can_read_and_operate_a_page(
    page: Callable[[Path], Path], look: Look, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    """Contrast, names and landmarks by axe; Tab reaches all that can be operated, and shows it."""
    open_page(browser, page(tmp_path).as_uri(), look)
    assert [] == violations(browser)
    assert [] == unreached(browser)


def test_nothing_of_a_printed_certificate_is_folded(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    """Every text of the page is printed, though it has no script; the limits before all tables."""
    page = certificate(tmp_path)
    browser.get(page.as_uri())
    text = "return document.body.innerText"
    folded = browser.execute_script(text)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    printed = browser.execute_script(text)
    digest = hashlib.sha256((tmp_path / "logs/meta.properties").read_bytes()).hexdigest()
    assert digest not in folded
    for word in (digest, "Directories searched", "up to metadata offset 42", *NOT_SEEN):
        assert word in printed, word
    first = printed.index(NOT_SEEN[0])
    assert first < printed.index("What was asked") < printed.index(digest)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_faults_are_found(browser: webdriver.Chrome, tmp_path: Path) -> None:
    """Pale text, a button that Tab leaves out, and a link whose focus cannot be seen."""
    path = tmp_path / "faults.html"
    path.write_text(FAULTS)
    open_page(browser, path.as_uri(), LOOKS[0])
    (pale,) = violations(browser)
    assert "serious color-contrast" in pale
    assert ["not reached", "not shown"] == [
        text.partition(">")[2].partition("<")[0] for text in unreached(browser)
    ]
