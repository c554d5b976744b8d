"""The baselines train for as long as they say, and their validation rows decide when they stop."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.baselines.ddpm import DDPM, TABDDPM_ABALONE, DdpmSettings, signal_shares
from bellman_diffusion.baselines.score import ScoreModel
from bellman_diffusion.baselines.score_flow import ScoreFlowModel, ScoreFlowSettings
from bellman_diffusion.paper import table_models
from bellman_diffusion.recipe import make_recipe
from bellman_diffusion.training.progress import NoProgress

ROWS = np.random.default_rng(0).normal(size=(64, 2))
SMALL = {"layers": (8,), "batch_size": 16}


class Recorder(NoProgress):
    """Every report of a training."""

    def __init__(self):
        self.steps, self.planned, self.figures = [], set(), []

    def update(self, step, n_steps, metrics):
        self.steps.append(step)
        self.planned.add(n_steps)
        self.figures.append(dict(metrics))


def ddpm(max_iter):
    return DDPM(DdpmSettings(max_iter=max_iter, n_times=20, **SMALL))


def score_flow(max_iter):
    return ScoreFlowModel(ScoreFlowSettings(max_iter=max_iter, **SMALL))


def score(max_iter):
    return ScoreModel(max_iter=max_iter, width=8, depth=1)


@pytest.mark.parametrize("make", [ddpm, score_flow, score])
@pytest.mark.parametrize("max_iter", [250, 400])
def test_a_baseline_trains_for_all_of_its_steps(make, max_iter):
    progress = Recorder()
    make(max_iter).fit(ROWS, progress=progress)
    assert progress.steps[-1] == max_iter
    assert progress.planned == {max_iter}


@pytest.mark.parametrize("settings", [DdpmSettings, ScoreFlowSettings])
def test_the_steps_of_the_published_comparison_are_these(settings):
    assert settings().max_iter == 5000
    assert ScoreModel().max_iter == 4000


def noise_error(model, rows):
    """The mean squared error of the learned noise on rows, at all levels alike: what is minimised."""
    levels = model.levels()
    rng = np.random.default_rng(1)
    rows = np.resize(model.transform_.transform(rows), (2000, rows.shape[1]))
    t = rng.integers(0, len(levels.signal), 2000)
    drawn = rng.normal(size=rows.shape)
    mixed = levels.signal[t][:, None] * rows + levels.noise[t][:, None] * drawn
    mixed = jnp.asarray(mixed / levels.width[t][:, None], jnp.float32)
    found = jax.vmap(model.network_)(mixed, jnp.asarray(t / len(levels.signal), jnp.float32))
    return float(np.mean(np.sum((np.asarray(found) - drawn) ** 2, axis=1)))


@pytest.mark.parametrize("make", [ddpm, score_flow])
def test_rows_that_learning_harms_stop_it_early_and_have_the_best_weights(make):
    """Validation rows ten deviations off: what is learned of the others is wrong for them."""
    far, progress = ROWS[:20] + 10.0, Recorder()
    model = make(1000).fit(ROWS, validation=far, progress=progress)
    losses = [figures["loss/validation"] for figures in progress.figures]
    assert progress.steps[-1] < 1000
    assert min(losses) < losses[-1]
    # The kept weights have the least of the losses, by draws of our own: within 10 %.
    assert noise_error(model, far) == pytest.approx(min(losses), rel=0.1)
    whole = make(1000).fit(ROWS)
    assert noise_error(whole, far) > 1.5 * noise_error(model, far)


@pytest.mark.parametrize("make", [ddpm, score_flow])
def test_without_validation_rows_nothing_is_judged(make):
    progress = Recorder()
    make(100).fit(ROWS, progress=progress)
    assert "loss/validation" not in progress.figures[-1]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ddpm", "DDPM"), ("score", "ScoreFlowModel"), ("bellman", "BellmanDiffusion")],
)
def test_the_comparison_hands_on_validation_rows_steps_and_seed(monkeypatch, name, kind):
    seen = {}
    real = getattr(table_models, kind)

    class Spy(real):
        def fit(self, X, *, validation=None, **options):
            settings = getattr(self, "settings", self)
            steps = getattr(settings, "max_iter", None) or settings.preset.max_iter
            seen.update(rows=X, validation=validation, steps=steps)
            seen.update(seed=self.random_state)
            raise StopIteration

    monkeypatch.setattr(table_models, kind, Spy)
    others = ROWS[:7] + 1
    task = table_models.Task(ROWS, others, make_recipe(), 5, 3, 120)
    with pytest.raises(StopIteration):
        table_models.MODELS[name](task)
    assert seen["rows"] is ROWS
    assert seen["validation"] is others
    assert (seen["steps"], seen["seed"]) == (120, 3)


def test_classical_models_learn_from_the_validation_rows_too():
    """They have no training to stop; rows drawn between neighbours reach both groups."""
    far = ROWS[:32] + 100.0
    made = table_models.MODELS["interpolation"](
        table_models.Task(ROWS, far, make_recipe(), 600, 0, None)
    )
    # A third of the rows; 600 draws know a share to 0.02.
    assert np.mean(made[:, 0] > 50) == pytest.approx(1 / 3, abs=0.08)


@pytest.mark.parametrize("n_times", [20, 100, 300])
def test_the_schedule_is_the_squared_cosine_of_nichol_and_dhariwal(n_times):
    """ᾱ_t = f(t)/f(0), f(t) = cos²((t/T + 0.008)/1.008 · π/2), but for the last, clipped, step."""
    f = lambda t: math.cos((t / n_times + 0.008) / 1.008 * math.pi / 2) ** 2
    wanted = np.array([f(t) / f(0) for t in range(1, n_times)])
    np.testing.assert_allclose(signal_shares(n_times)[:-1], wanted, rtol=1e-9)
    # The last step would leave nothing: a thousandth of what is left is kept.
    assert signal_shares(n_times)[-1] == pytest.approx(0.001 * wanted[-1], rel=1e-6)


def test_signal_and_noise_of_ddpm_have_the_variance_of_the_data():
    levels = DDPM().levels()
    np.testing.assert_allclose(levels.signal**2, signal_shares(300), rtol=1e-12)
    np.testing.assert_allclose(levels.width, 1.0, rtol=1e-12)


def test_the_published_settings_of_tabddpm_are_these():
    """Its repository's exp/abalone/ddpm_cb_best/config.toml, the rate to four digits."""
    assert (
        DdpmSettings(
            layers=(512, 128),
            max_iter=30_000,
            batch_size=4096,
            learning_rate=3.442e-4,
            transform="quantile",
            n_times=100,
        )
        == TABDDPM_ABALONE
    )
