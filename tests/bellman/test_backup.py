"""The backup operator on fields: constants, linearity, contraction, the preserved smoothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

from bellman_diffusion.returns.backup import Backup

X = jnp.linspace(-12, 12, 6001)
STEP = float(X[1] - X[0])


def bump(mean, width):
    return lambda x: jnp.prod(norm.pdf(x, mean, width))


def wave(x):
    return bump(0.0, 1.0)(x) * (1 + 0.5 * jnp.sin(3 * x[0]))


def on_line(field):
    values = jax.vmap(field)(X[:, None])
    return np.asarray(values).reshape(len(X))


def distance(values, power=2):
    return float((np.abs(values) ** power).sum() * STEP) ** (1 / power)


@pytest.mark.parametrize("noise_preserving", [False, True])
@pytest.mark.parametrize("dim", [1, 2])
def test_density_and_gradient_are_those_of_the_moved_variable(dim, noise_preserving):
    """X' ~ N(m, v²) gives N(r + γm, γ²v² [+ (1 − γ²)σ²])."""
    gamma, sigma, width = 0.8, 0.5, 0.7
    reward, mean = jnp.arange(dim) + 0.3, jnp.arange(dim) - 1.0
    backup = Backup(gamma, sigma, noise_preserving)
    following = bump(mean, width)
    spread = np.sqrt(gamma**2 * width**2 + (1 - gamma**2) * sigma**2 * noise_preserving)
    truth = bump(reward + gamma * mean, spread)
    x = jax.random.normal(jax.random.key(0), (20, dim)) + reward
    s = jax.vmap(backup.scalar(following, reward))(x)
    g = jax.vmap(backup.gradient(jax.grad(following), reward))(x)
    assert np.allclose(s, jax.vmap(truth)(x), atol=1e-5)
    assert np.allclose(g, jax.vmap(jax.grad(truth))(x), atol=1e-5)


@pytest.mark.parametrize("noise_preserving", [False, True])
def test_cdf_backup_is_the_integral_of_the_density_backup(noise_preserving):
    backup, reward = Backup(0.9, 0.3, noise_preserving), jnp.array([0.4])
    density = on_line(backup.scalar(wave, reward))
    values = on_line(wave)
    pieces = np.cumsum((values[1:] + values[:-1]) / 2) * STEP
    primitive = jnp.concatenate([jnp.zeros(1), pieces])
    cdf = on_line(backup.cdf(lambda x: jnp.interp(x[0], X, primitive), reward))
    assert np.allclose(np.cumsum(density) * STEP, cdf, atol=2e-3)


def test_backup_is_linear_in_the_field():
    backup, reward = Backup(0.9, 0.3), jnp.array([0.4])
    a, b = bump(0.5, 0.6), wave
    both = backup.scalar(lambda x: 2 * a(x) - 3 * b(x), reward)
    apart = 2 * on_line(backup.scalar(a, reward)) - 3 * on_line(backup.scalar(b, reward))
    assert np.allclose(on_line(both), apart, atol=1e-5)


@pytest.mark.parametrize(
    ("metric", "power"),
    [("wasserstein", 1.0), ("cramer", 0.5), ("l2_density", -0.5), ("l2_gradient", -1.5)],
)
def test_plain_backup_multiplies_distances_by_powers_of_gamma(metric, power):
    """W1: γ; Cramér: √γ; L2 of densities: γ^(−1/2); L2 of gradients: γ^(−3/2)."""
    gamma, reward = 0.7, jnp.array([0.2])
    backup = Backup(gamma, 0.3, noise_preserving=False)
    first, second = bump(-0.5, 0.5), bump(0.6, 0.8)

    def measure(f, h, f_slope, h_slope):
        gap, slope_gap = on_line(f) - on_line(h), on_line(f_slope) - on_line(h_slope)
        cdf_gap = np.cumsum(gap) * STEP
        return {
            "wasserstein": distance(cdf_gap, 1),
            "cramer": distance(cdf_gap),
            "l2_density": distance(gap),
            "l2_gradient": distance(slope_gap),
        }[metric]

    def slope(field):
        return lambda x: jax.grad(field)(x)[0]

    before = measure(first, second, slope(first), slope(second))
    after = measure(
        backup.scalar(first, reward),
        backup.scalar(second, reward),
        backup.gradient(slope(first), reward),
        backup.gradient(slope(second), reward),
    )
    assert after / before == pytest.approx(gamma**power, rel=2e-3)


def test_noise_preserving_backup_leaves_the_smoothing_at_sigma():
    """A return smoothed by σ is again smoothed by σ after any number of backups."""
    gamma, sigma = 0.8, 0.4
    backup = Backup(gamma, sigma, n_nodes=48)
    law, place = bump(1.0, sigma), 1.0
    for reward in (0.5, -1.0, 0.25):
        before = law
        law = backup.scalar(before, jnp.array([reward]))
        place = reward + gamma * place
        values = on_line(law)
        law = lambda x, values=values: jnp.interp(x[0], X, values)
    mean = float((np.asarray(X) * values).sum() * STEP)
    spread = float((((np.asarray(X) - mean) ** 2) * values).sum() * STEP)
    assert mean == pytest.approx(place, abs=1e-3)
    assert np.sqrt(spread) == pytest.approx(sigma, rel=1e-3)


def test_terminal_law_is_normal_around_the_reward():
    backup, reward = Backup(0.9, 0.3), jnp.array([0.4, -1.0])
    x = jnp.array([0.5, -0.8])
    assert backup.terminal_scalar(reward)(x) == pytest.approx(float(bump(reward, 0.3)(x)), rel=1e-5)
    assert np.allclose(
        backup.terminal_gradient(reward)(x), bump(reward, 0.3)(x) * (reward - x) / 0.09, rtol=1e-4
    )
    assert float(backup.terminal_cdf(reward)(reward)) == pytest.approx(0.25)
