import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bellman_diffusion.matching import IsotropicKernel, SlicedKernel
from tests.known import bimodal

KERNELS = {
    "isotropic": IsotropicKernel(),
    "sliced": SlicedKernel("rademacher"),
    "unit sphere": SlicedKernel("sphere", unit=True),
}


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_of_all_pairs_is_the_derivative_of_its_value(name):
    x1, x2 = jax.random.normal(jax.random.key(0), (2, 6, 3))
    variance = jnp.linspace(0.3, 1.2, 6)
    value = lambda x: KERNELS[name].all_pairs(jax.random.key(1), x, x2, variance)[0]
    expected = jax.grad(lambda x: jnp.sum(value(x)))(x1)
    got = KERNELS[name].all_pairs(jax.random.key(1), x1, x2, variance)[1]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_matched_is_all_pairs_with_one_second_point(name):
    x1, x2 = jax.random.normal(jax.random.key(0), (2, 1, 3))
    matched = KERNELS[name].matched(jax.random.key(1), x1, x2, 0.5)
    both = KERNELS[name].all_pairs(jax.random.key(1), x1, x2, jnp.array([0.5]))[0]
    np.testing.assert_allclose(matched, both, rtol=1e-5)


def test_isotropic_kernel_is_scipys_normal_density():
    x1, x2 = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    expected = multivariate_normal(np.zeros(3), 0.7 * np.eye(3)).pdf(x2 - x1)
    got = IsotropicKernel().matched(jax.random.key(0), jnp.asarray(x1), jnp.asarray(x2), 0.7)
    np.testing.assert_allclose(got, expected, rtol=1e-4)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("name", ["isotropic", "sliced"])
def test_all_pairs_estimates_rho_in_closed_form(name, dim):
    p = bimodal(dim)
    x1 = p.draw(jax.random.key(0), 4)
    x2 = p.draw(jax.random.key(1), 10_000)
    draw = lambda key: KERNELS[name].all_pairs(key, x1, x2, jnp.full(4, 0.4))[0]
    rho = jnp.mean(jax.lax.map(draw, jax.random.split(jax.random.key(2), 1000)), axis=0)
    expected = jax.vmap(p.rho(name, 0.4))(x1)
    np.testing.assert_allclose(rho, expected, rtol=0.03)
