"""Debian's chromium, driven for the tests that are marked ``browser``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from rashomon.audits.record import Audit
from rashomon.report import save_report

_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    chromium, driver = which("chromium"), which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium or chromedriver is not installed")
    options = Options()
    options.binary_location = chromium
    for flag in [*_FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    chrome.get("about:blank")  # away from the browser's own first page, which loads things
    yield chrome
    chrome.quit()


@pytest.fixture
def open_report(browser: webdriver.Chrome, tmp_path: Path) -> Callable[..., webdriver.Chrome]:
    """Write the audit's report and open it from the disk, at a width and in a theme."""

    def show(audit: Audit, width: int = 1280, theme: str = "light") -> webdriver.Chrome:
        for log in ("browser", "performance"):
            browser.get_log(log)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {
            "prefers-color-scheme": theme,
            "prefers-reduced-motion": "reduce",
        }  # clicks need a page at rest
        features = [{"name": name, "value": value} for name, value in media.items()]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get(save_report(audit, tmp_path / "report").report.as_uri())
        return browser

    return show
