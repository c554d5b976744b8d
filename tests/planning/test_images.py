"""Images of up to 96 × 96 pixels: a network of their own, kept as bytes."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion import Planner, PlanSettings, plan
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning import planned_returns
from bellman_diffusion.planning.planned_returns import state_distribution
from bellman_diffusion.planning.sampling import Sampler
from bellman_diffusion.render.plan_page import Risk, risk_figures, risk_table
from bellman_diffusion.returns.networks import PatchNetwork, last_layer, make_network
from bellman_diffusion.returns.observations import LARGEST_PLANNED_IMAGE, ObservationEncoder

FIGURES = ("mean", "std", "quantile_05", "quantile_95", "cvar_10", "cvar_01")


class Lamp(gym.Env):
    """The brighter half of the picture says what the one step pays: 1 at the left, 0 at the right."""

    observation_space = gym.spaces.Box(0, 255, (40, 33, 1), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = bool(self.np_random.integers(2))
        return self.picture(self.left), {}

    @staticmethod
    def picture(left):
        picture = np.full((40, 33, 1), 20, np.uint8)
        picture[:, : 16 if left else None] += 0 if not left else 200
        picture[:, 16:] += 0 if left else 200
        return picture

    def step(self, action):
        return self.picture(self.left), float(self.left), True, False, {}


if "tests/Lamp-v0" not in gym.registry:
    gym.register("tests/Lamp-v0", Lamp)


@pytest.fixture(scope="module")
def lamp():
    return plan(
        PlanSettings("tests/Lamp-v0", policy="random", samples=600, max_iter=250, n_basis=12)
    )


def test_returns_follow_from_what_is_seen(lamp, tmp_path):
    means = np.asarray(lamp.distribution([Lamp.picture(True), Lamp.picture(False)]).mean())
    assert means == pytest.approx([1, 0], abs=0.05)
    lamp.save(tmp_path / "planner.bellman")
    again = Planner.load(tmp_path / "planner.bellman")
    assert np.asarray(again.distribution([Lamp.picture(True)]).mean())[0] == pytest.approx(
        means[0], abs=1e-6
    )
    assert float(lamp.start_distribution().mean()) == pytest.approx(0.5, abs=0.2)


def test_images_are_kept_as_bytes():
    rows = Sampler(Lamp, _still(Lamp())).transitions(20, 0)
    assert rows.observation.dtype == rows.next_observation.dtype == np.uint8
    assert rows.observation.shape == (20, 40, 33, 1)


def test_many_images_are_read_in_parts(lamp, monkeypatch):
    rows = jnp.asarray(np.stack([Lamp.picture(i % 2 == 0) for i in range(7)]))
    whole = state_distribution(lamp.returns, rows)
    monkeypatch.setattr(planned_returns, "_BYTES_AT_ONCE", rows.nbytes // 3)
    parts = state_distribution(lamp.returns, rows)
    assert parts.batch_shape == (7,)
    assert np.allclose(parts.mean(), whole.mean(), atol=1e-6)
    assert np.allclose(parts.mass, whole.mass, atol=1e-6)


def test_a_patch_is_read_by_the_filters_wherever_it_is():
    """By hand: every 4×4 square times one matrix, then every 2×2 of those."""
    encoder = ObservationEncoder((40, 33, 2))
    network = make_network(encoder, jax.random.key(0), (8,), 3)
    assert isinstance(network, PatchNetwork)
    image = np.random.default_rng(0).normal(size=(40, 33, 2))
    full = np.zeros((40, 36, 2))
    full[:, :33] = image
    for size, layer in zip((4, 2), network.filters, strict=True):
        rows, columns = full.shape[0] // size, -(-full.shape[1] // size)
        padded = np.zeros((rows * size, columns * size, full.shape[2]))
        padded[:, : full.shape[1]] = full
        full = np.empty((rows, columns, layer.weight.shape[0]))
        for i in range(rows):
            for j in range(columns):
                patch = padded[i * size : (i + 1) * size, j * size : (j + 1) * size].reshape(-1)
                full[i, j] = np.maximum(
                    np.asarray(layer.weight) @ patch + np.asarray(layer.bias), 0
                )
    expected = network.dense(jnp.asarray(full.reshape(-1), jnp.float32))
    assert np.allclose(network(jnp.asarray(image, jnp.float32)), expected, atol=1e-4)
    assert last_layer(network).out_features == 3


def test_images_that_are_too_large_or_too_many_are_refused():
    space = gym.spaces.Box(0, 255, (97, 96, 3), np.uint8)
    with pytest.raises(InvalidInputError, match="of 3 to 96 pixels"):
        ObservationEncoder.for_space(space, "Big", LARGEST_PLANNED_IMAGE)
    with pytest.raises(InvalidInputError, match="fewer --samples"):
        plan(PlanSettings("tests/Lamp-v0", policy="random", samples=10**7, memory_gb=1.0))


def _still(env):
    from bellman_diffusion.planning.acting import acting

    return acting("random", env)


def test_a_report_names_an_image_by_its_size(lamp):
    risks = risk_figures(lamp)
    assert {row[0] for row in risk_table(risks).rows} == {"an image of 40 × 33 × 1"}
    pair = Risk(observation=[[0.5, 1.0], 2], **dict.fromkeys(FIGURES, 0.0))
    assert risk_table([pair]).rows[0][0] == "state ([0.5, 1.0], 2)"
