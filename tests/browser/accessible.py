"""What a page asks of who reads it: axe's findings, and what the keyboard reaches."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.browser.site import HEIGHT

FINDINGS: Final = frozenset(("moderate", "serious", "critical"))
"""Impacts of axe that count; the last one, minor, does not stop anybody."""

MARK: Final = """const wanted = "a[href], button, input, select, textarea, summary, [tabindex='0']";
const shown = [...document.querySelectorAll(wanted)].filter(each => each.checkVisibility());
shown.forEach((each, number) => each.setAttribute("data-stop", number));
return shown.map(each => each.outerHTML.slice(0, 80));"""
FOCUSED: Final = """const at = document.activeElement, style = getComputedStyle(at);
const line = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
return [at.getAttribute("data-stop"), line || style.boxShadow !== "none"];"""


class Look(NamedTuple):
    """How a page is looked at: with which preference of colours, and how wide, in CSS pixels."""

    colours: str
    width: int


LOOKS: Final = (Look("light", 1400), Look("dark", 1400), Look("light", 400), Look("dark", 400))


def open_page(browser: webdriver.Chrome, address: str, look: Look) -> None:
    """Load a page."""
    metrics = {"width": look.width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = {"name": "prefers-color-scheme", "value": look.colours}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get(address)


def violations(browser: webdriver.Chrome) -> list[str]:
    """What axe finds on the open page: rule, and the beginning of each element that breaks it."""
    rules: list[dict[str, Any]] = Axe().run(browser)["violations"]
    return [
        f"{rule['impact']} {rule['id']}: {node['html'][:80]}"
        for rule in rules
        if rule["impact"] in FINDINGS
        for node in rule["nodes"]
    ]


def unreached(browser: webdriver.Chrome) -> list[str]:
    """What can be operated on the open page and Tab does not come to, or does not show there."""
    stops: list[str] = browser.execute_script(MARK)
    shown = set()
    for _ in stops:
        ActionChains(browser).send_keys(Keys.TAB).perform()
        number, visible = browser.execute_script(FOCUSED)
        if visible and number is not None:
            shown.add(int(number))
    return [text for number, text in enumerate(stops) if number not in shown]
