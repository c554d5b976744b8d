"""The commands of the README and of the users' pages, run one after another as a reader would.

What takes long is thinned by options behind those of the page; nothing else is changed.
"""

import gzip
import shlex

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from stable_baselines3 import PPO

from tests.cli.test_agents import QUICK, bellman
from tests.test_documents import CONSOLE, ROOT

PAGES = (
    "README.md",
    *(f"docs/{name}.md" for name in ("index", "tables", "planner", "agents", "images", "view")),
)
THINNED = {
    "fit": ["--transform", "plain", "--set", "max_iter=50", "--set", "width=16"],
    "train": ["--seeds", "2", *QUICK],
    "images": ["--vae-steps", "50", "--latent-steps", "50", "--latent-dim", "2"],
    "view": ["--steps", "5"],
    "watch": ["--steps", "4"],
}
# Several machines, and a package that the tests do not install.
LEFT_OUT = ("--coordinator", "--distributed", "mo_gymnasium:")
# `bellman view` next to another model's run, which the pages take as there.
BEFORE = ("bellman train CartPole-v1 --algo c51",)


def thinned(name, words):
    more = list(THINNED.get(name, ()))
    if name == "plan" and ("--samples" in words or "--data" in words):
        more += ["--samples", "2000"] if "--samples" in words else []
        more += ["--max-iter", "250", "--n-basis", "11"]
    if name == "view" and "--html" not in words:
        # A server would not end.
        more += ["--html", "page.html"]
    return [name, *words, *more, "--quiet"]


def commands():
    seen = list(BEFORE)
    for page in PAGES:
        for block in CONSOLE.findall((ROOT / page).read_text()):
            lines = block.replace("\\\n", " ").splitlines()
            seen += [
                line[2:].split("#")[0].strip() for line in lines if line.startswith("$ bellman")
            ]
    return [line for line in dict.fromkeys(seen) if not any(word in line for word in LEFT_OUT)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What the pages take as there: a table, images of two kinds, a policy."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    length = rng.normal(0.5, 0.1, 400)
    rings = np.round(20 * length + rng.normal(0, 2, 400)).astype(int)
    sex = rng.choice(["F", "I", "M"], 400)
    pd.DataFrame({"Sex": sex, "Length": length, "Rings": rings}).to_csv("abalone.csv", index=False)
    PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu").save(tmp_path / "ppo.zip")
    steps = np.tile([3.0, 2.0, 1.0], 300)
    log = {"obs_0": steps, "reward": 1.0, "done": steps == 1, "action": rng.integers(0, 2, 900)}
    log |= {f"obs_{i}": rng.normal(size=900) for i in (1, 2, 3)}
    pd.DataFrame(log | {"profit": rng.normal(size=900)}).to_csv("log.csv", index=False)
    (tmp_path / "my_module.py").write_text(
        "def act(observation):\n    return int(observation[2] > 0)\n"
    )
    images = rng.integers(0, 256, (80, 8, 8), np.uint8)
    images[::2, :4] //= 8
    for k, image in enumerate(images):
        path = tmp_path / "digits" / "37"[k % 2] / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    write_idx("train-images-idx3-ubyte.gz", images)
    write_idx("train-labels-idx1-ubyte.gz", np.arange(80, dtype=np.uint8) % 2)
    np.savez("faces.npz", images=np.repeat(images[..., None], 3, axis=3))
    return tmp_path


def write_idx(name, values):
    sizes = np.array(values.shape, ">i4").tobytes()
    with gzip.open(name, "wb") as file:
        file.write(bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes())


def test_every_command_of_the_pages_runs(folder):
    for line in commands():
        name, *words = shlex.split(line)[1:]
        done = bellman(*thinned(name, words))
        assert done.returncode == 0, f"{line}: {done.stderr}"
    for made in ("rows.csv", "episode.gif", "view.html", "sevens.png", "new.png", "page.html"):
        assert (folder / made).stat().st_size > 0
