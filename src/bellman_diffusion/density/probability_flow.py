"""log p by the probability flow dx/dσ = −σ ∇log p_σ(x), solved by diffrax.

Along the flow d log p_σ(x)/dσ = σ div ∇log p_σ(x); at σ_max the density is taken to be normal. The
result is the log-density of the data smoothed by N(0, σ_min² I).
"""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bellman_diffusion.blocks import in_blocks
from bellman_diffusion.fields import AbstractNoiseField

_BLOCK = 256


def log_density_by_flow(
    field: AbstractNoiseField,
    x: Float[Array, "n dim"] | Float[np.ndarray, "n dim"],
    covariance: Float[Array, "dim dim"],
    *,
    rtol: float = 1e-3,
    atol: float = 1e-4,
) -> Float[np.ndarray, " n"]:
    """log p_{σ_min} at each row; `covariance` is the data's (the end is N(0, cov + σ_max²I))."""
    log_p = in_blocks(
        lambda _, rows: _solve(field, rows, covariance, rtol, atol),
        np.asarray(x, np.float32),
        _BLOCK,
    )
    # Where the density is too small to resolve the flow has no solution in float32.
    return np.where(np.isnan(log_p), -np.inf, log_p)


@eqx.filter_jit
def _solve(
    field: AbstractNoiseField,
    x: Float[Array, "n dim"],
    covariance: Float[Array, "dim dim"],
    rtol: float,
    atol: float,
) -> Float[Array, " n"]:
    dim = x.shape[1]
    end_covariance = covariance + field.sigma_max**2 * jnp.eye(dim)
    solve = jax.vmap(lambda point: _solve_point(field, point, rtol, atol))
    end, change = solve(x)
    log_end = jax.scipy.stats.multivariate_normal.logpdf(end, jnp.zeros(dim), end_covariance)
    return jnp.asarray(log_end + change)


def _solve_point(
    field: AbstractNoiseField, x: Float[Array, " dim"], rtol: float, atol: float
) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
    def velocity(log_sigma, state, args):
        # In log σ the steps are even: dx/dlog σ = −σ² score.
        del args
        sigma = jnp.exp(log_sigma)
        score = field.at(sigma).score
        basis = jnp.eye(x.shape[0])
        value, columns = jax.vmap(lambda v: jax.jvp(score, (state[0],), (v,)), out_axes=(None, 0))(
            basis
        )
        return -(sigma**2) * value, -(sigma**2) * jnp.trace(columns)

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(velocity),
        diffrax.Tsit5(),
        t0=jnp.log(field.sigma_min),
        t1=jnp.log(field.sigma_max),
        dt0=0.05,
        y0=(x, jnp.zeros(())),
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
        max_steps=512,
        throw=False,
    )
    end, change = jax.tree.map(lambda a: a[-1], solution.ys)
    # diffrax gives its last state also where it gave up; that is no solution.
    solved = solution.result == diffrax.RESULTS.successful
    return end, jnp.where(solved, change, jnp.nan)
