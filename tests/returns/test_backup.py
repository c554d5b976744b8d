"""The Bellman backup on fields: constants, linearity, contraction, the preserved smoothing."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import bellman_diffusion
from bellman_diffusion.returns.backup import BellmanBackup

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


def smoothed(field, variance):
    """The mean of field(x − n) over n ~ N(0, variance), by Gauss–Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(48)
    shifts = jnp.asarray(np.sqrt(variance) * nodes)
    shares = jnp.asarray(weights / weights.sum())
    return lambda x: jnp.tensordot(shares, jax.vmap(lambda n: field(x - n))(shifts), axes=1)


@pytest.mark.parametrize("dim", [1, 2])
def test_density_and_gradient_are_those_of_the_moved_variable(dim):
    """X' ~ N(m, v²) gives N(r + γm, γ²v²), in any dimension."""
    gamma, width = 0.8, 0.7
    reward, mean = jnp.arange(dim) + 0.3, jnp.arange(dim) - 1.0
    backup = BellmanBackup(reward, gamma, dim)
    truth = bump(reward + gamma * mean, gamma * width)
    x = jax.random.normal(jax.random.key(0), (20, dim)) + reward
    s = jax.vmap(backup.density(bump(mean, width)))(x)
    g = jax.vmap(backup.gradient(jax.grad(bump(mean, width))))(x)
    assert np.allclose(s, jax.vmap(truth)(x), atol=1e-5)
    assert np.allclose(g, jax.vmap(jax.grad(truth))(x), atol=1e-5)
    assert np.allclose(backup.returns(mean), reward + gamma * mean)
    assert np.allclose(backup.preimage(backup.returns(mean)), mean, atol=1e-6)


def test_cdf_backup_is_the_integral_of_the_density_backup():
    backup = BellmanBackup(jnp.array([0.4]), 0.9)
    density = on_line(backup.density(wave))
    values = on_line(wave)
    pieces = np.cumsum((values[1:] + values[:-1]) / 2) * STEP
    primitive = jnp.concatenate([jnp.zeros(1), pieces])
    cdf = on_line(backup.cdf(lambda x: jnp.interp(x[0], X, primitive)))
    assert np.allclose(np.cumsum(density) * STEP, cdf, atol=2e-3)


def test_backup_is_linear_in_the_field():
    backup = BellmanBackup(jnp.array([0.4]), 0.9)
    a, b = bump(0.5, 0.6), wave
    both = backup.density(lambda x: 2 * a(x) - 3 * b(x))
    apart = 2 * on_line(backup.density(a)) - 3 * on_line(backup.density(b))
    assert np.allclose(on_line(both), apart, atol=1e-5)


@pytest.mark.parametrize(
    ("metric", "power"),
    [("wasserstein", 1.0), ("cramer", 0.5), ("l2_density", -0.5), ("l2_gradient", -1.5)],
)
def test_plain_backup_multiplies_distances_by_powers_of_gamma(metric, power):
    """W1: γ; Cramér: √γ; L2 of densities: γ^(−1/2); L2 of gradients: γ^(−3/2)."""
    gamma = 0.7
    backup = BellmanBackup(jnp.array([0.2]), gamma)
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
    densities = (backup.density(f) for f in (first, second))
    slopes = (backup.gradient(slope(f)) for f in (first, second))
    assert measure(*densities, *slopes) / before == pytest.approx(gamma**power, rel=2e-3)


def test_noise_preserving_backup_leaves_the_smoothing_at_sigma():
    """With the lost variance added, a return smoothed by σ stays smoothed by σ."""
    gamma, sigma = 0.8, 0.4
    density, place = bump(1.0, sigma), 1.0
    for reward in (0.5, -1.0, 0.25):
        backup = BellmanBackup(jnp.array([reward]), gamma)
        values = on_line(smoothed(backup.density(density), backup.lost_variance(sigma)))
        place = float(backup.returns(place)[0])
        density = lambda x, values=values: jnp.interp(x[0], X, values)
    mean = float((np.asarray(X) * values).sum() * STEP)
    spread = float((((np.asarray(X) - mean) ** 2) * values).sum() * STEP)
    assert mean == pytest.approx(place, abs=1e-3)
    assert np.sqrt(spread) == pytest.approx(sigma, rel=1e-3)


def test_the_bellman_backup_is_written_once():
    """No other file of the package adds a reward to a discounted return."""
    pattern = re.compile(
        r"\b\w*(reward|\br)\w*(\[[^\]]*\]|\.\w+)*\s*\+\s*(self\.)?(gamma|discount|GAMMA)\b(\s*\*(?!\*))"
    )
    package = Path(bellman_diffusion.__file__).parent
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in package.rglob("*.py")
        for line in path.read_text().splitlines()
        if pattern.search(line) and not line.strip().startswith(("#", '"', "'"))
    ]
    assert [line.partition(":")[0] for line in found] == ["returns/backup.py"], found
    # The pattern finds what it is meant to find.
    for line in ("reward + gamma * total", "x = reward[:, None] + discount * centres"):
        assert pattern.search(line)
