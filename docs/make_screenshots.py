"""Screenshots of pages that `bellman view --html` wrote, by headless Chromium.

bellman train CartPole-v1 --out runs/ours --seed 7
bellman train CartPole-v1 --algo c51 --out runs/c51 --seed 7
bellman view runs/ours runs/c51 --html cartpole.html --seed 7
bellman plan FrozenLake-v1
bellman view runs/plan-FrozenLake-v1 --html frozenlake.html --seed 7
python docs/make_screenshots.py cartpole.html frozenlake.html
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).parent / "pictures"
# The step that is shown, and the colour scheme.
SHOTS = {"cartpole": (60, "light"), "frozenlake": (4, "dark")}


def main(pages: list[str]) -> None:
    """One screenshot for each page, named after it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for name in map(Path, pages):
            step, scheme = SHOTS[name.stem]
            size = {"width": 1280, "height": 800}
            page = browser.new_page(viewport=size, color_scheme=scheme)
            page.goto(name.resolve().as_uri())
            for _ in range(step):
                page.keyboard.press("ArrowRight")
            page.screenshot(path=PICTURES / f"view-{name.stem}.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
