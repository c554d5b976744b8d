"""The page in a real browser: what a user sees, does and hears of it."""

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from bellman_diffusion.view.page import render_view, write_view
from bellman_diffusion.view.server import make_server
from tests.view.records import episode_record, images_record, samples_record

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
if CHROMIUM is None:
    # CI installs one and says so: there a missing browser is a failure.
    if os.environ.get("BELLMAN_NEEDS_BROWSER"):
        raise RuntimeError("no Chromium is installed")
    pytest.skip("no Chromium is installed", allow_module_level=True)

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
# WCAG 2: text against what is behind it, AA.
LEAST_CONTRAST = 4.5
CONTRASTS = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
    if (!own || ["SCRIPT", "STYLE", "NOSCRIPT", "title"].includes(node.tagName)) continue;
    const style = getComputedStyle(node);
    const ink = light(parse(node instanceof SVGElement ? style.fill : style.color));
    const paper = light(behind(node));
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    found.push([ratio, node.textContent.trim().slice(0, 40)]);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    runs = [
        episode_record("ours"),
        episode_record("c51", n_steps=8),
        samples_record(),
        images_record(),
    ]
    return write_view(tmp_path_factory.mktemp("view") / "view.html", runs, "bellman view runs/a")


class Watched:
    """A page with all that it complains of and asks for."""

    def __init__(self, browser, address, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda m: self.complaints.append((m.type, m.text)))
        self.page.on("pageerror", lambda e: self.complaints.append(("error", str(e))))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.goto(address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def step(self, run=0):
        return int(self.page.locator(".run").nth(run).get_attribute("data-step"))

    def seen(self):
        """Frame, densities, gradient, cursor of the first run."""
        card = self.page.locator(".run").first
        return (
            card.locator("img").get_attribute("src"),
            card.locator("path[data-role=density]").first.get_attribute("d"),
            card.locator("path[data-role=gradient]").first.get_attribute("d"),
            card.locator("line[data-role=cursor]").get_attribute("x1"),
        )


def as_file(file: Path):
    return file.as_uri()


def test_from_a_file_with_no_complaint_and_no_request(browser, file):
    with Watched(browser, as_file(file)) as watched:
        watched.page.wait_for_selector(".run")
        assert watched.page.locator(".run").count() == 4
        assert watched.complaints == []
        elsewhere = [u for u in watched.requests if not u.startswith(("data:", as_file(file)))]
        assert elsewhere == []


def test_served_on_loopback(browser, file):
    server = make_server(render_view([episode_record()], "bellman view runs/a"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    try:
        with Watched(browser, address) as watched:
            assert watched.page.locator("img.frame").is_visible()
            assert watched.complaints == []
            assert all(u.startswith(("data:", address)) for u in watched.requests)
            assert watched.page.request.get(address + "secret").status == 404
    finally:
        server.shutdown()
        server.server_close()


def test_the_slider_moves_frame_and_laws_together(browser, file):
    with Watched(browser, as_file(file)) as watched:
        before = watched.seen()
        watched.page.locator("#slider").fill("5")
        after = watched.seen()
        assert all(a != b for a, b in zip(before, after, strict=True))
        assert watched.step(0) == watched.step(1) == 5
        # The second run is shorter and stays at its end.
        watched.page.locator("#slider").fill("11")
        assert (watched.step(0), watched.step(1), watched.step(2)) == (11, 7, 4)
        assert "step 11 of 11" in watched.page.locator("#where").text_content()
        row = watched.page.locator(".run").first.locator("tr.chosen")
        assert row.text_content().startswith("right (chosen)")


def test_images_are_seen_in_the_making(browser, file):
    with Watched(browser, as_file(file)) as watched:
        image = watched.page.locator(".run").nth(3).locator("img")
        before = image.get_attribute("src")
        watched.page.locator("#slider").fill("2")
        assert image.get_attribute("src") != before
        said = watched.page.locator(".run").nth(3).locator("figcaption").text_content()
        assert "moment 2 of 3. Noise 0.3" in said


def test_a_model_without_its_data_says_so(browser, tmp_path):
    page = write_view(tmp_path / "view.html", [samples_record() | {"data": None}], "bellman view")
    with Watched(browser, as_file(page)) as watched:
        assert "--data" in watched.page.locator(".run .note").first.text_content()
        assert watched.page.locator("canvas").count() == 2


def test_by_keyboard_alone(browser, file):
    with Watched(browser, as_file(file)) as watched:
        keys = watched.page.keyboard
        for _ in range(3):
            keys.press("ArrowRight")
        assert watched.step() == 3
        keys.press("ArrowLeft")
        assert watched.step() == 2
        keys.press("End")
        assert watched.step() == 11
        keys.press("Home")
        assert watched.step() == 0
        # The first things that Tab reaches, each with a frame that can be seen.
        keys.press("Tab")
        assert watched.page.evaluate("document.activeElement.id") == "play"
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert watched.page.evaluate(outline) == "solid"
        keys.press("Space")
        assert watched.page.locator("#play").text_content() == "Stop"
        keys.press("Space")
        assert watched.page.locator("#play").text_content() == "Play"
        keys.press("Tab")
        assert watched.page.evaluate("document.activeElement.id") == "slider"
        here = watched.step()
        keys.press("ArrowRight")
        assert watched.step() == here + 1
        assert watched.complaints == []


def test_play_runs_to_the_end_and_stops(browser, file):
    with Watched(browser, as_file(file)) as watched:
        watched.page.locator("#play").click()
        sync_api.expect(watched.page.locator("#play")).to_have_text("Stop")
        sync_api.expect(watched.page.locator("#play")).to_have_text("Play")
        assert watched.step() == 11


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(browser, file, scheme):
    with Watched(browser, as_file(file), color_scheme=scheme) as watched:
        found = watched.page.evaluate(CONTRASTS)
        assert len(found) > 40
        faint = [(round(ratio, 2), text) for ratio, text in found if ratio < LEAST_CONTRAST]
        assert faint == []
        paper = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


def test_on_a_phone(browser, file):
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True}
    with Watched(browser, as_file(file), **phone) as watched:
        width = watched.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360
        box = watched.page.locator("#play").bounding_box()
        assert min(box["width"], box["height"]) >= 44
        # All text of a chart has the size it is meant to have.
        size = "e => e.getBoundingClientRect().height"
        assert watched.page.locator("svg text").first.evaluate(size) >= 10
        assert watched.complaints == []


def test_charts_follow_the_windows_width(browser, file):
    with Watched(browser, as_file(file), viewport={"width": 1400, "height": 900}) as watched:
        svg = watched.page.locator(".run .wide svg").first
        wide = svg.bounding_box()["width"]
        watched.page.set_viewport_size({"width": 700, "height": 900})
        gap = "e => Math.abs(e.viewBox.baseVal.width - e.getBoundingClientRect().width)"
        deadline = time.monotonic() + 10
        while svg.evaluate(gap) >= 2 and time.monotonic() < deadline:
            watched.page.wait_for_timeout(50)
        assert svg.evaluate(gap) < 2
        assert svg.bounding_box()["width"] != wide
