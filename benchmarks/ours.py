"""Time our training and sampling, and diffrax's Euler, on the paper's networks. Prints JSON."""

import json
import time
from dataclasses import replace

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import cases
from bellman_diffusion import model
from bellman_diffusion.dynamics import EulerMaruyama, sample
from bellman_diffusion.fields import NetworkPair
from bellman_diffusion.recipe import PRESETS
from bellman_diffusion.training import init_state


def best_seconds(call) -> float:
    """The shortest of several calls, after one that compiles."""
    jax.block_until_ready(call())
    times = []
    for _ in range(cases.REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return min(times)


def matrix_rate() -> float:
    """float32 matrix products: operations a second."""
    n = 2048
    a = jnp.ones((n, n))
    product = jax.jit(lambda x: x @ x)
    return 2 * n**3 / best_seconds(lambda: product(a))


def training_rate(width: int, batch: int) -> float:
    """Steps of Algorithm 1 a second."""
    recipe = replace(PRESETS["paper"], width=width, batch_size=batch, epsilon=cases.EPSILON)
    data = np.random.default_rng(0).normal(size=(20_000, cases.DIM)).astype(np.float32)
    compiled = model._compile(model._shape_of(recipe), cases.DIM)
    state = init_state(
        compiled.init(jax.random.key(0), jnp.eye(cases.DIM)), model._schedule(recipe)
    )
    padded, n_rows = model._pad(data)
    key = jax.random.key(1)
    seconds = best_seconds(lambda: compiled.program(state, 0, 10**6, key, padded, n_rows))
    return model.CHUNK_STEPS / seconds


def field(width: int) -> NetworkPair:
    """The paper's networks with random weights."""
    return NetworkPair.create(jax.random.key(0), cases.DIM, width, cases.DEPTH)


def sampler_rate(width: int, paths: int) -> float:
    """Steps of Algorithm 2 a second, all paths moving."""
    dynamics = EulerMaruyama(
        field=field(width), step_size=cases.STEP_SIZE, n_steps=cases.SAMPLER_STEPS
    )
    start = np.zeros((paths, cases.DIM), np.float32)
    key = jax.random.key(0)
    seconds = best_seconds(lambda: sample(dynamics, key, start, max_lost=1.0).x)
    return cases.SAMPLER_STEPS / seconds


def diffrax_rate(width: int, paths: int, unsafe: bool) -> float:
    """The same by diffrax's Euler solver, with its usual Brownian path or its fastest."""
    pair = field(width)
    end = cases.STEP_SIZE * cases.SAMPLER_STEPS

    def solve(x, key):
        if unsafe:
            path = diffrax.UnsafeBrownianPath((cases.DIM,), key)
        else:
            path = diffrax.VirtualBrownianTree(0.0, end, cases.STEP_SIZE / 2, (cases.DIM,), key)
        drift = diffrax.ODETerm(lambda t, y, _: pair.gradient(y))
        noise = diffrax.ControlTerm(
            lambda t, y, _: jnp.sqrt(pair.scalar(y)) * jnp.eye(cases.DIM), path
        )
        solution = diffrax.diffeqsolve(
            diffrax.MultiTerm(drift, noise),
            diffrax.Euler(),
            0.0,
            end,
            cases.STEP_SIZE,
            x,
            adjoint=diffrax.DirectAdjoint(),
            max_steps=cases.SAMPLER_STEPS + 1,
        )
        return solution.ys[-1]

    run = jax.jit(jax.vmap(solve))
    start = jnp.zeros((paths, cases.DIM))
    keys = jax.random.split(jax.random.key(0), paths)
    return cases.SAMPLER_STEPS / best_seconds(lambda: run(start, keys))


if __name__ == "__main__":
    print(
        json.dumps(
            {
                "matrix_rate": matrix_rate(),
                "training": [training_rate(*case) for case in cases.TRAININGS],
                "sampling": [sampler_rate(*case) for case in cases.SAMPLERS],
                "diffrax": [diffrax_rate(*case, False) for case in cases.SAMPLERS],
                "diffrax_unsafe": [diffrax_rate(*case, True) for case in cases.SAMPLERS],
            }
        )
    )
