"""An image model: fitted, sampled, saved; by Python and by command."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from bellman_diffusion.cli.main import app
from bellman_diffusion.errors import CheckpointError, InvalidInputError
from bellman_diffusion.images.model import ImageModel, ImageSettings
from bellman_diffusion.render.image_grid import tile
from bellman_diffusion.render.image_page import nearest_images

TINY = ImageSettings(latent_dim=2, vae_steps=100, latent_steps=100)


@pytest.fixture(scope="module")
def bars():
    """Upright and level bars at random places."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    images = np.zeros((200, 1, 8, 8), np.uint8)
    for image, label, place in zip(images, labels, rng.integers(0, 7, 200), strict=True):
        strip = image[0] if label else image[0].T
        strip[place : place + 2] = 255
    return images, labels


@pytest.fixture(scope="module")
def model(bars):
    # Commas and quotes have a meaning in conditions, not in names.
    return ImageModel(TINY, random_state=1).fit(*bars, names=("upright", 'level, "flat"'))


def test_samples_have_the_images_form(model):
    drawn = model.sample(12, random_state=3)
    assert drawn.shape == (12, 1, 8, 8)
    assert drawn.dtype == np.uint8
    np.testing.assert_array_equal(drawn, model.sample(12, random_state=3))
    assert model.sample(5, label='level, "flat"').shape == (5, 1, 8, 8)


def test_lines_end_at_the_reconstructions(model, bars):
    images = bars[0][:4]
    lines = model.interpolate(images[:2], images[2:], n_steps=5)
    assert lines.shape == (2, 5, 1, 8, 8)
    ends = np.concatenate([lines[:, 0], lines[:, -1]]).astype(int)
    assert np.abs(ends - model.reconstruct(images).astype(int)).max() <= 1


def test_a_saved_model_draws_the_same(model, tmp_path):
    model.save(tmp_path)
    again = ImageModel.load(tmp_path)
    np.testing.assert_array_equal(
        again.sample(4, label='level, "flat"', random_state=2),
        model.sample(4, label='level, "flat"', random_state=2),
    )


def test_unknown_classes_and_missing_files(model, bars, tmp_path):
    with pytest.raises(InvalidInputError, match="there are upright, level"):
        model.sample(1, label="7")
    unlabelled = ImageModel(TINY).fit_latents(model.vae_, bars[0])
    with pytest.raises(InvalidInputError, match="without labels"):
        unlabelled.sample(1, label="7")
    with pytest.raises(CheckpointError, match="cannot read"):
        ImageModel.load(tmp_path)


def test_what_cannot_be_learned_is_told_before_training(bars):
    images, labels = bars
    for wrong, reason in (
        ((images / 255, labels), "give bytes"),
        ((images, labels, ["one"]), "from 0 to 0"),
        ((images, labels[:5]), "one for each image"),
        ((images, labels, ["a", "=b"]), "rename it"),
    ):
        with pytest.raises(InvalidInputError, match=reason):
            ImageModel(TINY).fit(*wrong)


def test_nearest_images_are_found(bars):
    images = bars[0]
    np.testing.assert_array_equal(nearest_images(images[:5], images), images[:5])


def test_tiles_lie_in_rows():
    sheet = tile(np.stack([np.full((1, 4, 4), 50 * k, np.uint8) for k in range(3)]), 2)
    assert sheet.shape == (10, 10)
    assert (sheet[0, 0], sheet[0, 6], sheet[6, 0], sheet[6, 6]) == (0, 50, 100, 255)


def test_the_command_fits_and_draws(bars, tmp_path):
    images, labels = bars
    np.savez(tmp_path / "bars.npz", images=images[:, 0], labels=labels)
    sizes = ["--latent-dim", "2", "--vae-steps", "50", "--latent-steps", "50"]
    out = str(tmp_path / "model")
    run = CliRunner().invoke(
        app, ["images", str(tmp_path / "bars.npz"), "-o", out, *sizes, "--json", "--quiet"]
    )
    assert run.exit_code == 0, run.output
    figures = json.loads(run.stdout.splitlines()[-1])
    assert figures["classes"] == ["0", "1"]
    page = (tmp_path / "model" / "report.html").read_text()
    for title in ("Samples", "Classes", "Reconstructions", "Interpolations", "Nearest"):
        assert title in page
    picture = tmp_path / "new.png"
    run = CliRunner().invoke(app, ["sample", out, "-n", "9", "--label", "1", "-o", str(picture)])
    assert run.exit_code == 0, run.output
    with Image.open(picture) as drawn:
        assert drawn.size == (28, 28)
    run = CliRunner().invoke(app, ["sample", out, "-n", "3", "-o", str(tmp_path / "new.npz")])
    assert run.exit_code == 0, run.output
    assert np.load(tmp_path / "new.npz")["images"].shape == (3, 8, 8, 1)
    for wrong in (["--where", "a=1"], [], ["-o", "a.txt"]):
        run = CliRunner().invoke(app, ["sample", out, *wrong])
        assert isinstance(run.exception, InvalidInputError)
