"""Time our agents on CleanRL's CartPole settings. Prints JSON.

control_ours.py speed ALGO SEEDS DEVICES   steps a second of all seeds together, without evaluations
control_ours.py solve SEED                 seconds and steps to a solved CartPole, compilation included
"""

import contextlib
import json
import sys
import time

import jax

if sys.argv[1] == "speed":
    jax.config.update("jax_num_cpu_devices", int(sys.argv[4]))

import jax.numpy as jnp

import control_cases as cases
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.devices import SeedGrid
from bellman_diffusion.agents.make import make_jax_learner
from bellman_diffusion.agents.registry import default_config
from bellman_diffusion.agents.train import train_agents


def speed(algo: str, n_seeds: int) -> dict:
    config = AgentConfig(
        "CartPole-v1",
        algo=algo,
        steps=cases.STEPS,
        eval_every=cases.STEPS,
        hidden=cases.HIDDEN,
        n_outputs=cases.ATOMS,
        support=cases.SUPPORT,
        gamma=cases.GAMMA,
        batch_size=cases.BATCH,
        steps_per_round=cases.STEPS_PER_UPDATE,
        updates_per_round=1,
        n_step=1,
        target_every=cases.TARGET_EVERY // cases.STEPS_PER_UPDATE,
        replay=cases.REPLAY,
        learning_rate=cases.LEARNING_RATE,
        learning_starts=cases.WARM_UP,
        epsilon_start=0.1,
        epsilon_end=0.1,
        normalise=False,
    )
    whole = make_jax_learner(config)
    grid = SeedGrid(range(n_seeds))
    keys = grid.keys()
    state = grid.over_seeds(whole.init)(keys)
    chunk = grid.over_seeds(whole.chunk, shared=1)
    # The first chunk compiles and warms up.
    state, _ = chunk(keys, state, jnp.asarray(0))
    jax.block_until_ready(state)
    times = []
    for i in range(1, 4):
        start = time.perf_counter()
        state, _ = chunk(keys, state, jnp.asarray(i * config.rounds_per_chunk))
        jax.block_until_ready(state)
        times.append(time.perf_counter() - start)
    seconds = sorted(times)[1]
    return {"steps_per_second": n_seeds * cases.STEPS / seconds, "seconds": seconds}


class FirstSolved:
    """The wall clock at the first judgement of 475."""

    def __init__(self) -> None:
        self.start, self.seconds, self.steps = time.perf_counter(), None, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def update(self, step, n_steps, metrics) -> None:
        if self.seconds is None and metrics["return"] >= 475:
            self.seconds, self.steps = time.perf_counter() - self.start, step
            raise KeyboardInterrupt


def solve(seed: int) -> dict:
    clock = FirstSolved()
    with contextlib.suppress(KeyboardInterrupt):
        train_agents(default_config("CartPole-v1"), [seed], progress=clock)
    return {"solved_seconds": clock.seconds, "solved_steps": clock.steps}


if __name__ == "__main__":
    kind, first, *rest = sys.argv[1:]
    print(json.dumps(speed(first, int(rest[0])) if kind == "speed" else solve(int(first))))
