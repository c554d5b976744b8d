"""The scikit-learn face."""

import contextlib
import logging

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bellman_diffusion import (
    BellmanDiffusion,
    CheckpointError,
    InvalidInputError,
    Recipe,
    TrainingDivergedError,
    make_recipe,
)
from bellman_diffusion.metrics import wasserstein_1
from bellman_diffusion.training import NoProgress

SMALL = {"max_iter": 20, "width": 8, "depth": 1, "n_steps": 8}
X = np.random.default_rng(0).normal([1.0, -2.0], [0.5, 3.0], (300, 2))


@parametrize_with_checks([BellmanDiffusion(**SMALL, random_state=0)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_fields_transform_like_a_density_and_its_gradient(tiny_model):
    """In the data's units too, (2g − ∇s)/s is the score."""
    x = X[:5]
    h = 1e-3 * tiny_model.standardiser_.scale
    grad_s = np.stack(
        [
            (tiny_model.scalar_field(x + d) - tiny_model.scalar_field(x - d)) / (2 * d.sum())
            for d in np.diag(h)
        ],
        axis=1,
    )
    s, g = tiny_model.scalar_field(x), tiny_model.gradient_field(x)
    expected = (2 * g - grad_s) / s[:, None]
    np.testing.assert_allclose(tiny_model.score_field(x), expected, rtol=0.05, atol=0.05)


def test_score_is_the_mean_log_density(tiny_model):
    np.testing.assert_allclose(tiny_model.score(X[:20]), tiny_model.score_samples(X[:20]).mean())


def test_the_same_seed_gives_the_same_samples(tiny_model):
    a, b, other = (tiny_model.sample(5, seed, max_lost=1.0) for seed in (3, 3, 4))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, other)


def test_frames_come_back_as_frames_with_their_columns(tmp_path):
    frame = pd.DataFrame(X, columns=["speed", "angle"])
    model = BellmanDiffusion(**SMALL, random_state=0).fit(frame)
    drawn = model.sample(4, random_state=0, max_lost=1.0)
    assert isinstance(drawn, pd.DataFrame)
    assert list(drawn.columns) == ["speed", "angle"]
    model.save(tmp_path / "model")
    again = BellmanDiffusion.load(tmp_path / "model")
    pd.testing.assert_frame_equal(again.sample(4, random_state=0, max_lost=1.0), drawn)


def test_a_frame_with_numbered_columns_comes_back_as_a_frame():
    drawn = BellmanDiffusion(**SMALL, random_state=0).fit(pd.DataFrame(X)).sample(3, max_lost=1.0)
    assert list(drawn.columns) == [0, 1]


def test_isotropic_scalar_field_is_the_smoothed_density():
    """log s against the truth: N(0, 1 + ε) for standardised normal data, within 0.1 on average."""
    data = np.random.default_rng(1).normal(2.0, 3.0, (5000, 1))
    recipe = make_recipe("paper", kernel="isotropic", epsilon=0.5, pairs="all", max_iter=1500)
    model = BellmanDiffusion(recipe, width=32, depth=2).fit(data)
    points = np.linspace(-3.0, 7.0, 9)[:, None]
    truth = -0.5 * (points[:, 0] - 2) ** 2 / (9 * 1.5) - 0.5 * np.log(2 * np.pi * 9 * 1.5)
    assert np.mean(np.abs(model.score_samples(points) - truth)) < 0.1


def test_a_run_without_a_seed_goes_on_with_its_own(tmp_path):
    first = BellmanDiffusion(**SMALL, run_dir=tmp_path).fit(X)
    again = BellmanDiffusion(**SMALL | {"n_steps": 9}, run_dir=tmp_path).fit(X)
    np.testing.assert_array_equal(first.scalar_field(X), again.scalar_field(X))
    assert again.loss_ == first.loss_


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_loaded_model_is_the_saved_one(tmp_path, preset):
    model = BellmanDiffusion(preset, max_iter=20, width=8, depth=1, random_state=0).fit(X)
    model.save(tmp_path / "model")
    again = BellmanDiffusion.load(tmp_path / "model")
    np.testing.assert_array_equal(again.scalar_field(X), model.scalar_field(X))
    np.testing.assert_array_equal(
        again.sample(3, random_state=1, max_lost=1.0), model.sample(3, random_state=1, max_lost=1.0)
    )
    assert again.get_params()["preset"] == model.recipe_
    with pytest.raises(InvalidInputError, match="no training data"):
        again.sample(3, start="data")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([[1.0, np.nan], [2.0, 3.0]]), "NaN"),
        (np.array([[1.0, np.inf], [2.0, 3.0]]), "infinity"),
        (np.array([[1.0, 2.0]]), "1 sample"),
        (np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 4.0]]), "column 0 is constant"),
        (np.array([[1e300, 2.0], [-1e300, 3.0]]), "column 0 has values too large"),
        (np.array([["a", "b"], ["c", "d"]]), "could not convert|dtype"),
        (np.arange(5.0), "2D array"),
        (np.empty((0, 2)), "0 sample"),
    ],
)
def test_bad_rows_are_refused_with_their_cause(rows, message):
    with pytest.raises(ValueError, match=message):
        BellmanDiffusion(**SMALL).fit(rows)


def test_wrong_number_of_columns_is_refused(tiny_model):
    for method in ("score_samples", "scalar_field", "gradient_field", "score_field"):
        with pytest.raises(ValueError, match="X has 3 features"):
            getattr(tiny_model, method)(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "best"}, "unknown preset 'best'"),
        ({"epsilon": -1.0}, "epsilon must be a number above 0"),
        ({"max_iter": 2.5}, "max_iter must be a whole number"),
        ({"kernel": "cubic"}, "kernel must be one of"),
        ({"dynamics": "euler"}, "need each other"),
        ({"field": "pair"}, "need each other"),
        ({"objective": "sliced-trace"}, "learned by denoising"),
        ({"sigma_min": 5.0}, "above sigma_max"),
        ({"ema_decay": 1.0}, "below 1"),
        ({"epsilon": float("inf")}, "epsilon must be a number above 0"),
        ({"max_iter": float("inf")}, "max_iter must be a number"),
        ({"unit_slices": "no"}, "True or False"),
        ({"preset": ["default"]}, "unknown preset"),
        ({"preset": "paper", "dynamics": "metropolis"}, "kernel='isotropic'"),
        ({"preset": "paper", "objective": "denoising"}, "needs one level"),
    ],
)
def test_bad_settings_are_refused_with_their_cause(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        BellmanDiffusion(make_recipe(**settings)).fit(X)


def test_the_estimators_own_settings_change_those_of_the_preset():
    with pytest.raises(InvalidInputError, match="max_iter must be a whole number"):
        BellmanDiffusion(max_iter=2.5).fit(X)
    with pytest.raises(InvalidInputError, match="unknown preset 'best'"):
        BellmanDiffusion("best").fit(X)
    with pytest.raises(InvalidInputError, match="there is no setting 'wdith'"):
        make_recipe(wdith=3)
    model = BellmanDiffusion(Recipe(epsilon=0.3, max_iter=9), width=8, depth=1).fit(X)
    assert (model.recipe_.epsilon, model.recipe_.max_iter, model.recipe_.width) == (0.3, 9, 8)
    # A recipe that cannot be run does not exist.
    with pytest.raises(InvalidInputError, match="above sigma_max"):
        Recipe(sigma_min=5.0)


def test_bad_calls_are_refused_with_their_cause(tiny_model):
    for n in (0, 2.5, "5", None):
        with pytest.raises(InvalidInputError, match="n_samples"):
            tiny_model.sample(n)
    with pytest.raises(InvalidInputError, match="start must be"):
        tiny_model.sample(3, start="zeros")
    with pytest.raises(InvalidInputError, match="2 rows, but n_samples is 3"):
        tiny_model.sample(3, start=X[:2])
    with pytest.raises(InvalidInputError, match="sigma must lie in"):
        tiny_model.scalar_field(X, sigma=99.0)


def test_damaged_and_foreign_files_are_refused(tiny_model, tmp_path):
    path = tmp_path / "model"
    tiny_model.save(path)
    content = bytearray(path.read_bytes())
    content[-100] ^= 4
    path.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match="damaged"):
        BellmanDiffusion.load(path)
    path.write_text("hello")
    with pytest.raises(CheckpointError, match="not a file of bellman-diffusion"):
        BellmanDiffusion.load(path)


def test_sliced_scalar_field_is_never_called_a_density():
    model = BellmanDiffusion("paper", max_iter=5, width=8, depth=1).fit(X)
    with pytest.raises(InvalidInputError, match="not a density"):
        model.score_samples(X)
    small = {"max_iter": 5, "width": 8, "depth": 1, "random_state": 0}
    one_column = BellmanDiffusion("paper", **small).fit(X[:, :1])
    np.testing.assert_allclose(
        # Not their logarithms, which may be next to zero.
        np.exp(one_column.score_samples(X[:4, :1])),
        one_column.scalar_field(X[:4, :1]),
        rtol=1e-6,
    )


@pytest.mark.parametrize("dynamics", ["euler", "metropolis", "langevin"])
@pytest.mark.parametrize("field", ["pair", "conservative"])
@pytest.mark.parametrize("objective", ["sliced-trace", "exact-trace", "denoising"])
def test_every_field_objective_and_dynamics_go_together(field, objective, dynamics):
    recipe = make_recipe(
        "paper", field=field, objective=objective, dynamics=dynamics, kernel="isotropic",
        sigma_min=0.1, sigma_max=0.1, max_iter=3, width=4, depth=1, n_steps=3, step_size=0.001,
    )  # fmt: skip
    model = BellmanDiffusion(recipe, random_state=0).fit(X)
    assert model.sample(2, max_lost=1.0, start="data").shape == (2, 2)


def test_an_interrupted_fit_goes_on_in_its_run_folder(tmp_path):
    class Stop(NoProgress):
        def update(self, step, n_steps, metrics):
            raise KeyboardInterrupt

    settings = {"max_iter": 450, "width": 8, "depth": 1, "random_state": 0}
    whole = BellmanDiffusion(**settings).fit(X)
    model = BellmanDiffusion(**settings, run_dir=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, progress=Stop())
    model.fit(X)
    np.testing.assert_array_equal(model.scalar_field(X), whole.scalar_field(X))
    with pytest.raises(InvalidInputError, match=r"another configuration \(data"):
        BellmanDiffusion(**settings, run_dir=tmp_path).fit(X[::-1])
    with pytest.raises(InvalidInputError, match="another configuration"):
        BellmanDiffusion(**settings | {"width": 16}, run_dir=tmp_path).fit(X)


def test_divergence_says_what_to_change():
    with pytest.raises(TrainingDivergedError, match=r"Lower learning_rate \(now 1e\+30\)"):
        BellmanDiffusion(**SMALL | {"max_iter": 400}, learning_rate=1e30).fit(X)


@contextlib.contextmanager
def compilations():
    """The names of what JAX compiles inside the block."""
    names = []

    class Listen(logging.Handler):
        def emit(self, record):
            if "Finished XLA compilation" in record.getMessage():
                names.append(record.getMessage())

    handler, logger = Listen(), logging.getLogger("jax")
    logger.addHandler(handler)
    try:
        with jax.log_compiles():
            yield names
    finally:
        logger.removeHandler(handler)


def test_a_second_fit_of_the_same_shape_compiles_nothing():
    settings = {**SMALL, "width": 12}

    def fit_and_use(seed, rows):
        model = BellmanDiffusion(**settings, random_state=seed).fit(rows)
        model.sample(3, random_state=seed, max_lost=1.0)
        model.score_field(rows[:3])

    with compilations() as first:
        fit_and_use(0, X)
    with compilations() as second:
        fit_and_use(1, X[:280] + 1)
    assert first
    assert not second


@pytest.mark.quality
def test_default_preset_learns_the_mixture(mixture):
    """One seed of the published figure: weights, W1 near its floor, and log-densities."""
    rng = np.random.default_rng(5)
    model = BellmanDiffusion(random_state=5).fit(mixture.draw(20_000, rng))
    samples = model.sample(8000, random_state=5)
    np.testing.assert_allclose(mixture.figures(samples)["weights"], mixture.weights, atol=0.025)
    fresh = mixture.draw(4000, rng)
    floor = wasserstein_1(fresh[:2000], fresh[2000:])
    assert wasserstein_1(samples[:2000], fresh[:2000]) < 1.35 * floor
    log_p, truth = model.score_samples(fresh[:500]), np.log(mixture.density(fresh[:500]))
    assert np.mean(np.abs(log_p - truth)) < 0.25
    assert abs(np.mean(log_p - truth)) < 0.05
    axis = np.linspace(-4.5, 4.5, 32)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    assert abs(np.exp(model.score_samples(grid)).sum() * (axis[1] - axis[0]) ** 2 - 1) < 0.03
