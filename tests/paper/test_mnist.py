"""The digits' experiment on two kinds of bars, small enough for seconds."""

import numpy as np
import pytest

from bellman_diffusion.data.mnist import Digits
from bellman_diffusion.images.model import ImageSettings
from bellman_diffusion.paper.experiments import mnist
from bellman_diffusion.paper.experiments.mnist import MnistOptions, MnistSettings
from tests.paper.helpers import report_of, workplace

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
        patch.setattr(mnist, "read_mnist", bars)
        patch.setattr(mnist, "NAMES", ["0", "1"])
        options, work = MnistOptions(seeds=1), workplace(out)
        summary = mnist.run(options, work, TINY)
        cells = {p.name: p.stat().st_mtime_ns for p in (out / "cells").glob("*.json")}
        again = mnist.run(options, work, TINY)
        assert {p.name: p.stat().st_mtime_ns for p in (out / "cells").glob("*.json")} == cells
    return out, summary, again


def test_every_model_is_evaluated(run):
    _, summary, again = run
    assert summary.bellman == again.bellman
    assert mnist.MnistSummary.from_json(summary.to_json()) == summary
    for row in summary.models().values():
        assert row.frechet > summary.floor.frechet
        assert 0 <= row.confident <= 1
    assert 0 <= summary.bellman.asked_for <= 1


def test_the_page_has_the_grids(run):
    out, summary, _ = run
    names = {path.name for path in (out / "figures").iterdir()}
    assert names == {f"mnist-{m}.png" for m in ("bellman", "ddpm", "prior", "nearest")}
    page = report_of("mnist", summary, out)
    assert page.count("data:image/png") == 4
    assert page.count("<tr>") == 5
    assert "is confident of" in page
