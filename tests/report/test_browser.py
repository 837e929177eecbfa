"""The report in a real browser: it works, offline and by keyboard, and hostile text is inert."""

import json
import time
from dataclasses import replace
from importlib.resources import files

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from rashomon.explainers.collection import Explanations
from rashomon.explainers.display import to_html

from .sample import HOSTILE, METHODS, bare_audit, sample_audit

pytestmark = pytest.mark.browser


def requests(browser):
    """The addresses that the page asked for; itself and the browser's own first page aside."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [
        url
        for url in sent
        if not url.startswith(("data:", "chrome:")) and url != browser.current_url.split("#")[0]
    ]


def shown(browser):
    return [node.text for node in browser.find_elements(By.CSS_SELECTOR, ".example h3")]


def order(browser, by):
    Select(browser.find_element(By.ID, "order")).select_by_value(by)


def until(condition, seconds=3.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


VARIANTS = {
    "whole": lambda: sample_audit(12),
    "bare": bare_audit,
    "hostile": lambda: sample_audit(8, hostile=True),
    "pairs": lambda: sample_audit(4, pairs=True),
    "one method": lambda: sample_audit(4, methods=("lime",)),
    "undefined": lambda: sample_audit(4, undefined=True, gold=False),
    "no examples": lambda: replace(sample_audit(1), explanations=Explanations()),
}


@pytest.mark.parametrize("width", [1280, 800, 360])
@pytest.mark.parametrize("name", VARIANTS)
def test_opens_quietly_and_fits(open_report, name, width):
    browser = open_report(VARIANTS[name](), width)
    assert browser.get_log("browser") == []
    assert requests(browser) == []
    wide = "return document.documentElement.scrollWidth <= window.innerWidth"
    assert browser.execute_script(wide), "the page scrolls sideways"


def test_a_word_without_end_does_not_widen_the_page_of_explanations(browser, tmp_path):
    audit = sample_audit(8, hostile=True)
    assert any("a" * 5000 in item.text for item in audit.explanations)
    (tmp_path / "heat.html").write_text(to_html(audit.explanations), encoding="utf-8")
    browser.get((tmp_path / "heat.html").as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize(
    ("options", "width", "theme"),
    [
        ({}, 1280, "light"),
        ({}, 1280, "dark"),
        ({}, 390, "light"),
        ({"hostile": True}, 390, "dark"),
        ({"pairs": True, "undefined": True}, 1280, "light"),
    ],
)
def test_axe_finds_nothing(open_report, options, width, theme):
    package = pytest.importorskip("axe_core_python")
    browser = open_report(sample_audit(3, methods=METHODS[:4], **options), width, theme)
    browser.execute_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    browser.execute_script(files(package).joinpath("axe.min.js").read_text(encoding="utf-8"))
    result = browser.execute_async_script("axe.run().then(arguments[0], (e) => arguments[0](String(e)))")
    assert isinstance(result, dict), result
    problems = [(v["id"], [node["html"][:150] for node in v["nodes"][:3]]) for v in result["violations"]]
    assert problems == []
    assert len(result["passes"]) > 20


@pytest.mark.parametrize("width", [1280, 360])
def test_the_numbers_of_a_judgement_come_with_the_focus(open_report, width):
    audit = sample_audit(2)
    browser = open_report(audit, width)
    drawn = browser.find_elements(By.CSS_SELECTOR, ".gauge[tabindex='0']")
    for gauge in (*drawn[:4], drawn[-1]):
        figures = gauge.find_element(By.XPATH, "following-sibling::*[@class='figures']")
        assert not figures.is_displayed()
        browser.execute_script("arguments[0].focus()", gauge)
        assert figures.text.replace("\n", "; ") == gauge.get_attribute("aria-label")
        wide = "return document.documentElement.scrollWidth <= window.innerWidth"
        assert browser.execute_script(wide), "the bubble makes the page scroll sideways"
        box, words = figures.rect, gauge.rect
        assert 0 <= box["x"] < box["x"] + box["width"] <= width
        assert box["y"] >= words["y"] + words["height"], "the drawing stays in sight"
    first = drawn[0].find_element(By.CSS_SELECTOR, "svg").rect
    assert first["width"] > 80


def test_switching_the_measure(open_report):
    browser = open_report(sample_audit(2))
    figure = browser.find_element(By.CSS_SELECTOR, ".matrix")
    layers = figure.find_elements(By.CSS_SELECTOR, ".layer")
    assert [layer.is_displayed() for layer in layers] == [True, False, False]
    radios = figure.find_elements(By.CSS_SELECTOR, "input[type=radio]")
    radios[1].click()
    assert [layer.is_displayed() for layer in layers] == [False, True, False]
    radios[1].send_keys(Keys.ARROW_RIGHT)
    assert [layer.is_displayed() for layer in layers] == [False, False, True]


def test_cells_are_reached_by_keyboard(open_report):
    browser = open_report(sample_audit(2))
    figure = browser.find_element(By.CSS_SELECTOR, ".matrix")
    readout = figure.find_element(By.CSS_SELECTOR, ".readout")
    region = figure.find_element(By.CSS_SELECTOR, ".scroll")
    browser.execute_script("arguments[0].focus()", region)
    browser.switch_to.active_element.send_keys(Keys.TAB)
    assert readout.text.startswith("attention and attention: Kendall tau-b 1.00. n 200")
    browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert readout.text.startswith("integrated-gradients and lime: Kendall tau-b")
    stops = figure.find_elements(By.CSS_SELECTOR, ".layer:not([hidden]) td[tabindex='0']")
    assert len(stops) == 1


def test_sorting(open_report):
    audit = sample_audit(14)
    browser = open_report(audit)
    known = {k: v for k, v in audit.example_agreement.items() if v == v}
    ascending = sorted(known, key=known.__getitem__)
    assert shown(browser) == [f"Example {name}" for name in ascending[:10]]
    order(browser, "agreement")
    assert shown(browser) == [f"Example {name}" for name in ascending[::-1][:10]]
    order(browser, "given")
    assert shown(browser)[:2] == ["Example ex-000", "Example ex-001"]
    order(browser, "longest")
    tokens = [int(n.text.split()[-1]) for n in browser.find_elements(By.CSS_SELECTOR, ".meta li:last-child")]
    assert tokens == sorted(tokens, reverse=True)
    order(browser, "disagreement")
    browser.find_element(By.ID, "more").click()
    assert shown(browser)[-1] == "Example ex-013", "an undefined agreement comes last"


def test_searching(open_report):
    audit = sample_audit(30)
    browser = open_report(audit)
    word = "SUPERB"
    fitting = {item.example_id for item in audit.explanations if word.lower() in item.text.lower()}
    browser.find_element(By.ID, "search").send_keys(word)
    status = browser.find_element(By.ID, "count")
    until(lambda: status.text.startswith(f"{len(fitting)} of 30 examples fit"))
    assert all(name.split()[1] in fitting for name in shown(browser))
    browser.find_element(By.ID, "search").send_keys(" nowhere")
    until(lambda: status.text == "No example fits.")
    assert shown(browser) == []
    assert status.get_attribute("aria-live") == "polite"


def test_filters(open_report):
    audit = sample_audit(30)
    browser = open_report(audit)
    browser.find_element(By.CSS_SELECTOR, "#methods input[value='0']").click()
    names = [n.text.split("\n")[0] for n in browser.find_elements(By.CSS_SELECTOR, ".example:first-child th")]
    assert names == list(METHODS[1:])
    Select(browser.find_element(By.ID, "outcome")).select_by_value("wrong")
    wrong = sum(label != "positive" for label in audit.gold_labels.values())
    assert browser.find_element(By.ID, "count").text.startswith(f"{wrong} of 30 examples fit")
    assert "the prediction is wrong" in browser.find_element(By.CSS_SELECTOR, ".meta").text


def test_colours_and_evidence_are_on_the_right_words(open_report):
    audit = sample_audit(3)
    browser = open_report(audit)
    order(browser, "given")
    first = browser.find_element(By.CSS_SELECTOR, ".example .text")
    assert first.get_property("textContent") == audit.explanations[0].text
    marked = [n.text for n in first.find_elements(By.CSS_SELECTOR, ".rationale")]
    spans = audit.rationales["ex-000"]
    assert marked == [audit.explanations[0].text[a:b] for _, a, b in spans]
    assert len(first.find_elements(By.CSS_SELECTOR, ".top")) == 3


def test_theme_toggle(open_report):
    browser = open_report(sample_audit(2), theme="light")
    paper = "return getComputedStyle(document.body).backgroundColor"
    button = browser.find_element(By.ID, "theme")
    seen = []
    for _ in range(4):
        seen.append((button.text, browser.execute_script(paper)))
        button.click()
    light, dark = "rgb(255, 255, 255)", "rgb(22, 25, 29)"
    assert seen == [
        ("Theme: system", light),
        ("Theme: light", light),
        ("Theme: dark", dark),
        ("Theme: system", light),
    ]


def test_skip_link_comes_first_and_works(open_report):
    browser = open_report(sample_audit(2))
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    link = browser.switch_to.active_element
    assert link.text == "Skip to the report"
    link.send_keys(Keys.ENTER)
    assert browser.switch_to.active_element.get_attribute("id") == "content"


def test_hostile_text_is_inert(open_report):
    browser = open_report(sample_audit(8, hostile=True))
    order(browser, "given")
    assert "owned" not in browser.title
    texts = [n.get_property("textContent") for n in browser.find_elements(By.CSS_SELECTOR, ".example .text")]
    assert texts[:: len(METHODS)][: len(HOSTILE)] == list(HOSTILE)
    assert browser.execute_script("return document.scripts.length") == 2
    assert browser.find_elements(By.TAG_NAME, "img") == []
    direction = "return getComputedStyle(arguments[0]).direction"
    hebrew = browser.find_elements(By.CSS_SELECTOR, ".example")[3].find_element(By.CSS_SELECTOR, ".text")
    assert browser.execute_script(direction, hebrew) == "rtl"
    assert browser.get_log("browser") == []


def test_policy_refuses_foreign_scripts(open_report):
    browser = open_report(sample_audit(1))
    browser.execute_script(
        "const script = document.createElement('script');"
        "script.textContent = 'window.owned = 1'; document.body.append(script)"
    )
    assert browser.execute_script("return window.owned") is None
    assert any("Content Security Policy" in entry["message"] for entry in browser.get_log("browser"))


def test_pairs_show_both_texts(open_report):
    browser = open_report(sample_audit(2, pairs=True))
    first = browser.find_element(By.CSS_SELECTOR, ".example td")
    labels = [n.text for n in first.find_elements(By.CSS_SELECTOR, ".which")]
    assert labels == ["First text", "Second text"]


def test_five_hundred_examples_are_quick(open_report):
    browser = open_report(sample_audit(500))
    timing = "const t = performance.getEntriesByType('navigation')[0]; return t.domContentLoadedEventEnd"
    assert browser.execute_script(timing) < 3000
    took = browser.execute_async_script(
        "const done = arguments[0], start = performance.now(), box = document.getElementById('order');"
        "box.value = 'longest'; box.dispatchEvent(new Event('change', { bubbles: true }));"
        "requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));"
    )
    assert took < 1000
    browser.find_element(By.ID, "more").click()
    assert len(shown(browser)) == 20


def test_the_map_shows_texts_by_pointer_and_keyboard_and_leads_to_their_explanations(open_report):
    browser = open_report(sample_audit(12))
    figure = browser.find_element(By.CSS_SELECTOR, ".map")
    points = figure.find_elements(By.CSS_SELECTOR, ".points circle")
    assert len(points) == 12
    readout = figure.find_element(By.CSS_SELECTOR, ".readout")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", figure)
    browser.execute_script("arguments[0].focus()", points[0])
    name = points[0].get_attribute("data-id")
    assert readout.text.startswith(f"{name}: ")
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    second = points[1].get_attribute("data-id")
    assert browser.switch_to.active_element.get_attribute("data-id") == second
    assert readout.text.startswith(f"{second}: ")
    before = [point.get_attribute("class") for point in points]
    browser.execute_script("arguments[0].click()", figure.find_elements(By.CSS_SELECTOR, ".switch input")[1])
    after = [point.get_attribute("class") for point in points]
    assert before != after == [point.get_attribute("data-shades").split(" ")[1] for point in points]
    scales = figure.find_elements(By.CSS_SELECTOR, ".scale")
    assert [scale.is_displayed() for scale in scales] == [False, True]
    browser.execute_script("arguments[0].focus()", points[1])
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert shown(browser)[0] == f"Example {second}"
    assert browser.switch_to.active_element.get_attribute("aria-label") == f"Example {second}"
    browser.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", points[5])
    assert shown(browser)[0] == f"Example {points[5].get_attribute('data-id')}"
    assert browser.get_log("browser") == []
