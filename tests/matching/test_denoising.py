"""Denoising regression has the fields of p_σ as its minimisers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.fields import KernelField
from bellman_diffusion.matching import (
    DenoisingMatching,
    IsotropicKernel,
    SlicedKernel,
    posterior_noise,
)
from tests.known import bimodal

SIGMA = 0.4
EPSILON, GROWTH = 0.5, 2.0


def objective(kernel, group_size):
    kind = {"isotropic": IsotropicKernel(), "sliced": SlicedKernel("rademacher")}[kernel]
    return DenoisingMatching(kind, EPSILON, GROWTH, SIGMA, SIGMA, group_size)


def minimiser(p, kernel):
    """The exact fields of p_σ; the second points of the kernel are clean ones."""
    return KernelField(
        lambda x: p.log_density(x, SIGMA**2), p.rho(kernel, EPSILON + GROWTH * SIGMA**2)
    )


@pytest.mark.parametrize("group_size", [1, 16, 64])
@pytest.mark.parametrize("kernel", ["isotropic", "sliced"])
@pytest.mark.parametrize("dim", [1, 2])
def test_targets_have_the_fields_of_p_sigma_as_conditional_means(dim, kernel, group_size):
    """target − field is uncorrelated with functions of x, within 4.5 standard errors."""
    p = bimodal(dim)
    field, loss = minimiser(p, kernel), objective(kernel, group_size)
    tests = [jnp.ones_like, lambda x: x, lambda x: jnp.cos(2 * x), lambda x: jnp.tanh(3 * x)]

    def one(key):
        keys = jax.random.split(key, 4)
        x0, x2 = p.draw(keys[0], 64), p.draw(keys[1], 32)
        # In a group of all clean points some need not have been perturbed.
        n = 24 if group_size == 64 else 64
        x = x0[:n] + SIGMA * jax.random.normal(keys[2], (n, dim))
        s, g = loss.targets(keys[3], x, x0, x2, jnp.full(n, SIGMA))
        s_exact, g_exact = jax.vmap(field.scalar_and_gradient)(x)
        residual = jnp.concatenate([(s - s_exact)[:, None], g - g_exact], axis=1)
        return jnp.stack([jnp.mean(t(x[:, :1]) * residual, axis=0) for t in tests])

    draws = np.asarray(jax.lax.map(one, jax.random.split(jax.random.key(0), 4000)))
    error = draws.std(axis=0, ddof=1) / len(draws) ** 0.5
    assert np.all(np.abs(draws.mean(axis=0)) < 4.5 * error)


def test_posterior_noise_is_bayes_rule_over_the_group():
    rng = np.random.default_rng(0)
    x0 = jnp.asarray(rng.normal(size=(7, 2)), jnp.float32)
    x = x0 + 0.5 * jnp.asarray(rng.normal(size=(7, 2)), jnp.float32)
    sigma = jnp.full(7, 0.5)
    got = posterior_noise(x, x0, sigma, 3)
    for group in ([0, 1, 2], [3, 4, 5], [6]):
        for i in group:
            odds = np.exp([-0.5 * np.sum((x[i] - x0[j]) ** 2) / 0.25 for j in group])
            noise = np.array([(x[i] - x0[j]) / 0.5 for j in group])
            np.testing.assert_allclose(got[i], odds @ noise / odds.sum(), rtol=1e-4, atol=1e-5)


def test_groups_of_one_are_plain_denoising():
    x0 = jax.random.normal(jax.random.key(0), (6, 2))
    noise = jax.random.normal(jax.random.key(1), (6, 2))
    got = posterior_noise(x0 + 0.3 * noise, x0, jnp.full(6, 0.3), 1)
    np.testing.assert_allclose(got, noise, atol=1e-5)


def test_larger_groups_lower_the_variance_of_the_targets():
    p = bimodal(2)
    x0, x2 = p.draw(jax.random.key(0), 1024), p.draw(jax.random.key(1), 512)
    x = x0 + SIGMA * jax.random.normal(jax.random.key(2), x0.shape)
    exact = jax.jit(jax.vmap(minimiser(p, "isotropic").gradient))(x)
    errors = []
    for size in (1, 128):
        g = objective("isotropic", size).targets(
            jax.random.key(3), x, x0, x2, jnp.full(1024, SIGMA)
        )[1]
        errors.append(float(jnp.mean((g - exact) ** 2)))
    assert errors[1] < 0.2 * errors[0]


@pytest.mark.parametrize("kernel", ["isotropic", "sliced"])
def test_loss_is_least_at_the_exact_fields(kernel):
    p = bimodal(2)
    loss = objective(kernel, 32)
    exact = minimiser(p, kernel)
    key = jax.random.key(0)
    x1, x2 = p.draw(jax.random.key(1), 4096), p.draw(jax.random.key(2), 512)

    @partial(jax.jit, static_argnums=0)
    def evaluate(rho):
        return loss(KernelField(exact.log_density, rho), key, x1, x2)

    best = evaluate(exact.rho)
    worse = evaluate(lambda x: 1.3 * exact.rho(x))
    assert worse.scalar > best.scalar
    assert worse.gradient > best.gradient


def test_more_slices_leave_the_mean_of_the_targets_and_lower_their_spread():
    p = bimodal(2)
    x0, x2 = p.draw(jax.random.key(0), 64), p.draw(jax.random.key(1), 64)
    x = x0 + SIGMA * jax.random.normal(jax.random.key(2), x0.shape)

    def draws(n_slices):
        loss = DenoisingMatching(
            SlicedKernel("gaussian"), EPSILON, GROWTH, SIGMA, SIGMA, n_slices=n_slices
        )
        one = lambda key: jnp.mean(loss.targets(key, x, x0, x2, jnp.full(64, SIGMA))[0])
        return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), 1500)))

    few, many = draws(1), draws(4)
    joint_error = np.hypot(few.std(), many.std()) / 1500**0.5
    assert abs(few.mean() - many.mean()) < 4 * joint_error
    assert 1.75 < few.std() / many.std() < 2.25


def test_a_group_beyond_the_batch_perturbs_the_batch_alone():
    """The loss of 8 points among 32 is that of these points with the targets of all 32."""
    p = bimodal(2)
    x1, x2 = p.draw(jax.random.key(0), 32), p.draw(jax.random.key(1), 16)
    pooled = DenoisingMatching(IsotropicKernel(), EPSILON, GROWTH, SIGMA, SIGMA, 32, 1, 8)
    key = jax.random.key(2)
    _, key_noise, key_kernel = jax.random.split(key, 3)
    noise = SIGMA * jax.random.normal(key_noise, (8, 2))
    field = minimiser(p, "isotropic")
    scale = pooled.scale(2)(SIGMA)
    wanted = []
    for n in (noise, -noise):
        x = x1[:8] + n
        _, g_target = pooled.targets(key_kernel, x, x1, x2, jnp.full(8, SIGMA))
        g = jax.vmap(field.gradient)(x)
        wanted.append(jnp.mean(jnp.sum((g - g_target) ** 2, axis=1)) * (2 * SIGMA / scale) ** 2)
    got = pooled(field, key, x1, x2).gradient
    np.testing.assert_allclose(got, np.mean(wanted), rtol=1e-4)
