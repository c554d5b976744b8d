"""The paper's losses against quadrature, their minimisers, and their sliced estimators."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.fields import AbstractField
from bellman_diffusion.matching import (
    SLICE_DISTRIBUTIONS,
    ExactTrace,
    FieldMatching,
    IsotropicKernel,
    SlicedKernel,
    SlicedTrace,
)
from tests.known import bimodal, grid, hermite, normal

EPSILON = 0.5
KERNELS = {"isotropic": IsotropicKernel(), "sliced": SlicedKernel("rademacher")}


class Bump(AbstractField):
    """A test field that is no minimiser of anything: s and g with known smooth shapes."""

    shift: float = 0.2

    def scalar_and_gradient(self, x):
        bump = jnp.exp(-0.3 * jnp.sum((x - self.shift) ** 2))
        return 0.5 * bump, -0.4 * x * bump + 0.1 * jnp.flip(jnp.sin(x))


@eqx.filter_jit
def exact_losses(field, rho, points, weights):
    """E[|g|² + tr ∇g ρ] and E[s² − 2sρ] by quadrature."""
    g = jax.vmap(field.gradient)(points)
    trace = jax.vmap(lambda x: jnp.trace(jax.jacfwd(field.gradient)(x)))(points)
    s, r = jax.vmap(field.scalar)(points), jax.vmap(rho)(points)
    return weights @ (jnp.sum(g**2, axis=1) + trace * r), weights @ (s**2 - 2 * s * r)


def estimate(objective, field, p, n_batches=40, batch=2048):
    """Mean and standard error of each loss over many batches."""

    def one(key):
        key_1, key_2, key_loss = jax.random.split(key, 3)
        n_second = batch if objective.pairs == "matched" else 128
        return objective(field, key_loss, p.draw(key_1, batch), p.draw(key_2, n_second))

    losses = jax.lax.map(one, jax.random.split(jax.random.key(7), n_batches))
    return [(np.mean(loss), np.std(loss, ddof=1) / n_batches**0.5) for loss in losses]


@pytest.mark.parametrize("pairs", ["matched", "all"])
@pytest.mark.parametrize("trace", ["exact", "sliced"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_each_loss_has_its_closed_form_for_a_gaussian_target(dim, kernel, trace, pairs):
    p = normal(dim)
    objective = FieldMatching(
        KERNELS[kernel], ExactTrace() if trace == "exact" else SlicedTrace(), EPSILON, pairs, 2
    )
    expected = exact_losses(Bump(), p.rho(kernel, EPSILON), *hermite(dim))
    for (mean, error), value in zip(estimate(objective, Bump(), p), expected, strict=True):
        assert abs(mean - value) < 4.5 * error + 1e-6
        assert error < 0.05 * abs(value) + 0.01


def test_quadrature_agrees_with_the_formula_for_a_linear_field():
    """For p = N(0, I), g = −x, s = 1: L_grad = D − D·N(0; 0, 2 + ε), L_id = 1 − 2·N(0; 0, 2 + ε)."""

    class Linear(AbstractField):
        def scalar_and_gradient(self, x):
            return jnp.ones(()), -x

    for dim in (1, 2, 5):
        peak = (2 * np.pi * (2 + EPSILON)) ** (-dim / 2)
        rho = normal(dim).rho("isotropic", EPSILON)
        got = exact_losses(Linear(), rho, *hermite(dim))
        np.testing.assert_allclose(got, [dim - dim * peak, 1 - 2 * peak], rtol=2e-3)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dim", [1, 2])
def test_minimisers_are_rho_and_half_grad_rho_plus_rho_score(dim, kernel):
    """The losses' directional derivatives vanish there, in any direction, and not elsewhere."""
    p = bimodal(dim)
    rho = p.rho(kernel, EPSILON)
    points, cell = grid(dim)
    weights = jax.vmap(p.density)(points) * cell

    class Mixed(AbstractField):
        base: AbstractField
        amount: jax.Array

        def scalar_and_gradient(self, x):
            pairs = zip(
                self.base.scalar_and_gradient(x), Bump().scalar_and_gradient(x), strict=True
            )
            s, g = (a + self.amount * b for a, b in pairs)
            return s, g

    def slope(base):
        losses = lambda t: jnp.stack(exact_losses(Mixed(base, t), rho, points, weights))
        return jax.jit(jax.jacfwd(losses))(jnp.asarray(0.0))

    np.testing.assert_allclose(slope(p.field(rho)), 0.0, atol=2e-4)
    assert np.all(np.abs(slope(p.field(lambda x: 2 * rho(x)))) > 1e-2)


@pytest.mark.parametrize("distribution", SLICE_DISTRIBUTIONS)
@pytest.mark.parametrize("dim", [1, 3])
def test_sliced_trace_is_unbiased(distribution, dim):
    x = jnp.linspace(-0.5, 1.0, dim)
    exact = jnp.stack(ExactTrace()(Bump(), jax.random.key(0), x))
    keys = jax.random.split(jax.random.key(1), 100_000)
    draws = jnp.stack(jax.vmap(lambda k: SlicedTrace(distribution)(Bump(), k, x))(keys), axis=1)
    error = jnp.std(draws, axis=0) / len(keys) ** 0.5
    assert np.all(np.abs(jnp.mean(draws, axis=0) - exact) < 4 * error + 1e-5)


@pytest.mark.parametrize("n_slices", [1, 3])
def test_more_slices_leave_the_mean_and_lower_the_spread(n_slices):
    p = normal(2)
    x1, x2 = p.draw(jax.random.key(0), 64), p.draw(jax.random.key(1), 64)
    few, many = (
        FieldMatching(KERNELS["sliced"], SlicedTrace("gaussian"), EPSILON, "matched", n)
        for n in (n_slices, 4 * n_slices)
    )
    draw = lambda objective: np.asarray(
        jax.jit(jax.vmap(lambda k: objective(Bump(), k, x1, x2).gradient))(
            jax.random.split(jax.random.key(2), 1500)
        )
    )
    few, many = draw(few), draw(many)
    joint_error = np.hypot(few.std(), many.std()) / 1500**0.5
    assert abs(few.mean() - many.mean()) < 4 * joint_error
    assert 1.75 < few.std() / many.std() < 2.25


def test_jitter_gives_the_loss_of_noised_data():
    """In mean over draws of the data, within 4.5 standard errors."""
    objective = lambda jitter: FieldMatching(
        KERNELS["sliced"], SlicedTrace("rademacher"), EPSILON, jitter=jitter
    )

    def losses(key, jitter, before):
        keys = jax.random.split(key, 5)
        x = [normal(2).draw(k, 64) for k in keys[:2]]
        x = [x + before * jax.random.normal(k, x.shape) for x, k in zip(x, keys[2:4], strict=True)]
        return jnp.stack(objective(jitter)(Bump(), keys[4], *x))

    draws = [
        np.asarray(
            jax.jit(jax.vmap(lambda k, a=a: losses(k, *a)))(
                jax.random.split(jax.random.key(s), 4000)
            )
        )
        for s, a in enumerate([(0.5, 0.0), (0.0, 0.5)])
    ]
    error = np.hypot(*(d.std(axis=0) for d in draws)) / 4000**0.5
    assert np.all(np.abs(draws[0].mean(axis=0) - draws[1].mean(axis=0)) < 4.5 * error)
