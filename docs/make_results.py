"""Write the results pages from the files under `results/`. `make docs` runs this first."""

from pages.common import DOCS
from pages.control import agents_page, cartpole_page, planning_page
from pages.samples import mnist_page, tables_page, toy_page
from pages.speed import speed_page
from pages.theory import claims_page, theorems_page

PAGES = {
    "claims": claims_page,
    "toy": toy_page,
    "tables": tables_page,
    "mnist": mnist_page,
    "theorems": theorems_page,
    "planning": planning_page,
    "cartpole": cartpole_page,
    "agents": agents_page,
    "speed": speed_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / f"results-{name}.md").write_text(page())
