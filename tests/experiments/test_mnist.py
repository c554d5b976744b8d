"""The digits' experiment on two kinds of bars, small enough for seconds."""

import json

import numpy as np
import pytest

from bellman_diffusion.data.mnist import Digits
from bellman_diffusion.experiments import mnist
from bellman_diffusion.experiments.mnist import MnistSettings, run_mnist
from bellman_diffusion.images.model import ImageSettings
from bellman_diffusion.report import mnist_report
from bellman_diffusion.report.mnist_report import mnist_table, mnist_verdict, write_mnist_report

TINY = MnistSettings(
    ImageSettings(latent_dim=2, vae_steps=50, latent_steps=50),
    classifier_steps=50,
    n_train=300,
    n_drawn=300,
    n_of_each=4,
)


def bars(part):
    rng = np.random.default_rng(len(part))
    labels = rng.integers(0, 2, 400)
    images = np.zeros((400, 1, 8, 8), np.uint8)
    for image, label, place in zip(images, labels, rng.integers(0, 7, 400), strict=True):
        strip = image[0] if label else image[0].T
        strip[place : place + 2] = 255
    return Digits(images, labels)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("mnist")
    with pytest.MonkeyPatch.context() as patch:
        for module in (mnist, mnist_report):
            patch.setattr(module, "read_mnist", bars)
        patch.setattr(mnist, "NAMES", ["0", "1"])
        summary = run_mnist(out, [0], settings=TINY, n_workers=1)
        cells = {p.name: p.stat().st_mtime_ns for p in (out / "cells").glob("*.json")}
        again = run_mnist(out, [0], settings=TINY, n_workers=1)
        assert {p.name: p.stat().st_mtime_ns for p in (out / "cells").glob("*.json")} == cells
        page = write_mnist_report(out, summary, "bellman reproduce mnist")
    return out, summary, again, page


def test_every_model_is_judged(run):
    out, summary, again, _ = run
    assert json.loads((out / "mnist.json").read_text()) == again
    assert summary["bellman"]["frechet"] == again["bellman"]["frechet"]
    for model in ("bellman", "ddpm", "prior"):
        assert summary[model]["frechet"] > summary["floor"]["frechet"]
        assert 0 <= summary[model]["confident"] <= 1
    assert 0 <= summary["bellman"]["asked_for"] <= 1


def test_the_page_has_the_grids(run):
    out, summary, _, page = run
    names = {path.name for path in (out / "figures").iterdir()}
    assert names == {f"mnist-{m}.png" for m in ("bellman", "ddpm", "prior", "nearest")}
    assert mnist_verdict(summary) in page.read_text().replace("&#39;", "'")
    assert len(mnist_table(summary).rows) == 4
