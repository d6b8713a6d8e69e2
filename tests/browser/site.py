"""A browser on a running demo, and the questions that its GraphQL answers."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import element_to_be_clickable
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.pictures import smaller
from tests.browser.server import REPOSITORY, Server

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
PAGE_SECONDS = 180
WIDTH, HEIGHT, LOW = 1400, 900, 560
STILL_SECONDS, MOVES_SECONDS = 0.4, 5
"""A page that does not change for so long has done; one that counts down never does."""

RUNS = """query ($filter: RunsFilter!) { runsOrError(filter: $filter) {
  ... on Runs { results { runId status } } } }"""
PARTITIONS = """query { assetNodeOrError(assetKey: {path: ["kafka_logs", "segment_set"]}) {
  ... on AssetNode { partitionStats { numPartitions numMaterialized numFailed } } } }"""
ADD_PARTITION = """mutation ($repository: RepositorySelector!, $key: String!) { addDynamicPartition(
  repositorySelector: $repository, partitionsDefName: "kafka_logs", partitionKey: $key) {
  __typename } }"""
STATE = """query ($sensor: SensorSelector!) { sensorOrError(sensorSelector: $sensor) {
  ... on Sensor { sensorState { id status ticks(limit: 20) { status skipReason } } } } }"""
STOP = "mutation ($id: String!) { stopSensor(id: $id) { __typename } }"
TRY = """mutation ($sensor: SensorSelector!) { sensorDryRun(selectorData: $sensor, cursor: null) {
  __typename ... on DryRunInstigationTick { evaluationResult { error { message }
    dynamicPartitionsRequests { type partitionKeys }
    runRequests { runConfigYaml } } } } }"""
VALID = """query ($sweep: PipelineSelector!, $config: RunConfigData!) {
  isPipelineConfigValid(pipeline: $sweep, mode: "default", runConfigData: $config) {
    __typename } }"""
BACKFILL = """mutation ($names: [String!]!) { launchPartitionBackfill(backfillParams: {
  partitionNames: $names, assetSelection: [{path: ["kafka_logs", "segment_set"]}]}) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
BACKFILL_STATUS = """query ($id: String!) { partitionBackfillOrError(backfillId: $id) {
  ... on PartitionBackfill { status } } }"""


@dataclass(frozen=True, slots=True)
class Site:
    """A running demo and a browser.

    Attributes:
        pictures: where the pictures of pages go.
    """

    server: Server
    browser: webdriver.Chrome
    pictures: Path

    def see(self, path: str, *words: str, name: str | None = None) -> str:
        """Open a page; then as `shows`."""
        self.browser.get(self.server.address + path)
        return self.shows(*words, name=name)

    def shows(self, *words: str, name: str | None = None, seconds: float = PAGE_SECONDS) -> str:
        """Wait until the page shows all these words; its text. With a name, keep a picture."""

        def text(browser: webdriver.Chrome) -> str | None:
            shown = browser.find_element(By.TAG_NAME, "body").text
            return shown if all(word in shown for word in words) else None

        try:
            text_shown = str(WebDriverWait(self.browser, seconds, 0.2).until(text))
        except Exception:
            self.browser.save_screenshot(str(self.server.said.with_name("failed.png")))
            raise
        if name is not None:
            self.picture(name)
        return text_shown

    def picture(self, name: str) -> None:
        """Keep a picture, once the page stands still. Effects: writes NAME.png."""
        before, deadline = b"", time.monotonic() + MOVES_SECONDS
        while (now := self._shot()) != before and time.monotonic() < deadline:
            before = now
            time.sleep(STILL_SECONDS)
        (self.pictures / f"{name}.png").write_bytes(smaller(now))

    def _shot(self) -> bytes:
        how = {"format": "png", "optimizeForSpeed": True}
        return base64.b64decode(self.browser.execute_cdp_cmd("Page.captureScreenshot", how)["data"])

    def click(self, xpath: str) -> None:
        """Click what is there once it can be clicked."""
        element = element_to_be_clickable((By.XPATH, xpath))
        WebDriverWait(self.browser, PAGE_SECONDS, 0.2).until(element).click()

    def runs(self, **wanted: object) -> list[dict[str, str]]:
        """Runs by GraphQL's filter."""
        results: list[dict[str, str]] = self.server.ask(RUNS, filter=wanted)["runsOrError"][
            "results"
        ]
        return results

    def states(self) -> tuple[int, int, int]:
        """How many partitions the asset has, how many are materialized, and how many failed."""
        stats = self.server.ask(PARTITIONS)["assetNodeOrError"]["partitionStats"]
        return stats["numPartitions"], stats["numMaterialized"], stats["numFailed"]

    def sensor(self, name: str) -> dict[str, Any]:
        """State and ticks of a sensor."""
        sensor = REPOSITORY | {"sensorName": name}
        state: dict[str, Any] = self.server.ask(STATE, sensor=sensor)["sensorOrError"]
        state_of: dict[str, Any] = state["sensorState"]
        return state_of

    def ticks(self, name: str) -> list[dict[str, str]]:
        """Ticks of a sensor that have ended, the latest first."""
        ticks: list[dict[str, str]] = self.sensor(name)["ticks"]
        return [tick for tick in ticks if tick["status"] != "STARTED"]

    def stop(self, sensor: str) -> None:
        """Switch a sensor off."""
        self.server.ask(STOP, id=self.sensor(sensor)["id"])

    def tried(self, sensor: str) -> dict[str, Any]:
        """What a sensor would ask for now, as the button "Test sensor" shows it."""
        sensor_data = REPOSITORY | {"sensorName": sensor}
        tick = self.server.ask(TRY, sensor=sensor_data)["sensorDryRun"]["evaluationResult"]
        assert tick["error"] is None, tick["error"]
        last: dict[str, Any] = tick
        return last

    def swept_by(self, request: dict[str, Any]) -> list[str]:
        """The logs of a sensor's request for a sweep; Dagster must take its configuration."""
        config = yaml.safe_load(request["runConfigYaml"])
        sweep = REPOSITORY | {"pipelineName": "sweep"}
        valid = self.server.ask(VALID, sweep=sweep, config=config)["isPipelineConfigValid"]
        assert valid["__typename"] == "PipelineConfigValidationValid", valid
        logs: list[str] = config["ops"]["plan_sweep"]["config"]["logs"]
        return logs


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """A browser without a screen."""
    options = Options()
    options.binary_location = str(CHROMIUM)
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{flag}")
    browser = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        set_height(browser, HEIGHT)
        yield browser
    finally:
        browser.quit()


def set_height(browser: webdriver.Chrome, height: int) -> None:
    """The page's size: the window's own has a frame in it."""
    metrics = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
