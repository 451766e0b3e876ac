"""The page in Chromium: it fetches nothing, reports no error, and passes axe in light, dark, narrow and printed."""

from __future__ import annotations

import base64
import json
import shutil

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.report.page.page import Section, page

webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed: pip install '.[browser]'")
axe = pytest.importorskip("axe_selenium_python", reason="axe is not installed: pip install '.[browser]'")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium or chromedriver is not on PATH"),
]


class Model(torch.nn.Module):
    def forward(self, x, y):
        rows = x.view(-1, 4)
        if y.shape[0] > 5:
            rows = rows * 2
        return rows, y.nonzero(), torch.cat([y, y]).view(6, -1) + 1


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A page of three models: refuted, proved and without a report."""
    args, names = (torch.ones(8), torch.ones(9)), ("x", "y")
    shapes = {name: {0: Dim(name, min=1, max=40)} for name in names}
    refuted = check(Model(), args, dynamic_shapes=shapes)
    proved = check(torch.nn.ReLU(), (torch.ones(3),), dynamic_shapes=({0: Dim("n", min=0, max=9)},))
    assert (refuted.status, proved.status) == ("refuted", "proved")
    sections = [
        Section("one", refuted, "refuted"),
        Section("two", proved, "proved"),
        Section("three", None, "no verdict", "why"),
    ]
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(page("three models", sections), encoding="utf-8")
    return file


@pytest.fixture
def browser(tmp_path):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    switches = ["headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"]
    switches += ["disable-background-networking", "disable-component-update", f"user-data-dir={tmp_path}"]
    for switch in switches:
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def requested(browser):
    """The addresses that were requested since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]


@pytest.mark.parametrize(
    ("width", "scheme", "medium"),
    [(1280, "light", ""), (1280, "dark", ""), (400, "light", ""), (800, "light", "print")],
)
def test_the_page_is_whole_and_can_be_read(browser, written, width, scheme, medium):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": features})
    requested(browser)
    browser.get(written.as_uri())
    assert [each for each in requested(browser) if not each.startswith("data:")] == [written.as_uri()]
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    checker = axe.Axe(browser)
    checker.inject()
    found = checker.run()["violations"]
    assert not found, checker.report(found)


def test_every_link_and_detail_is_reached_by_the_keyboard(browser, written):
    browser.get(written.as_uri())
    count = browser.execute_script("return document.querySelectorAll('a, summary').length")
    met = set()
    for _ in range(2 * count + 20):
        browser.switch_to.active_element.send_keys("\ue004")  # Tab
        met.add(browser.execute_script("return document.activeElement.outerHTML.slice(0, 300)"))
    assert count <= len(met) + 5, "links that look alike count once"
    assert any("skip" in each for each in met)


def test_a_printed_page_has_the_questions_unfolded(browser, written):
    browser.get(written.as_uri())
    document = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert document.startswith(b"%PDF")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown = "return [...document.querySelectorAll('details li')].every(each => each.checkVisibility())"
    assert browser.execute_script(shown) is True
