"""The site of the documents in a browser, opened as files: its search needs no server, and a phone
shows whole pages.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.site import PAGE_SECONDS, chromium
from tests.tidy.trees import ROOT

pytestmark = [pytest.mark.browser]

PHONE = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a site that was built as `make site` does."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, ROOT / "website/build.py", folder], check=True)
    return (folder / "site").as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with chromium() as started:
        yield started


def test_the_search_works_without_a_server(browser: webdriver.Chrome, address: str) -> None:
    """What is typed leads to the page of a command, and nothing is loaded from elsewhere."""
    browser.get(f"{address}/index.html")
    browser.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys("retention.ms")

    def results(page: webdriver.Chrome) -> list[str]:
        links = page.find_elements(By.CSS_SELECTOR, "a.md-search-result__link")
        return [str(link.get_attribute("href")) for link in links]

    hrefs = WebDriverWait(browser, PAGE_SECONDS).until(results)
    assert f"{address}/commands/retain.html" in {href.partition("?")[0] for href in hrefs}
    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    )
    assert [] == [name for name in loaded if not name.startswith(address)]


@pytest.mark.parametrize("page", ["index", "gallery", "commands/plan", "for/operator", "deploying"])
def test_a_phone_shows_whole_pages(browser: webdriver.Chrome, address: str, page: str) -> None:
    """No page is wider than the screen: what is too wide scrolls within it."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    browser.get(f"{address}/{page}.html")
    assert PHONE["width"] == browser.execute_script("return document.documentElement.scrollWidth")
