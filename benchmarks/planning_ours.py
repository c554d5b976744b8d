"""Time exact planning on one model of `planning_cases`. Prints JSON.

planning_ours.py lake SIZE accuracy SHARE   a lake of SIZE × SIZE, to this share of the range
planning_ours.py lake SIZE cells N          the same on a grid of N cells
planning_ours.py goals SIZE cells N         a board with many goals
planning_ours.py normal SHARE               a chain with normal rewards
planning_ours.py storm SHARE                a chain with integer rewards; brackets for Storm's answers
planning_ours.py means                      the means of an optimal policy, for mdpsolver

The updates are compiled before the clock starts.
"""

import json
import os
import resource
import sys
import time
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

import planning_cases as cases
from bellman_diffusion.environments.transition_tables import finite_mdp
from bellman_diffusion.planning.certify import ALPHA, Certified, certify
from bellman_diffusion.returns.mdp import Chain, FiniteMDP
from bellman_diffusion.returns.moments import mean_return
from bellman_diffusion.returns.tabular_policies import optimal_policy

LAKE_GAMMA = 0.99
NORMAL_GAMMA = 0.95


class Clock:
    """Seconds since it was made: on the wall, and of all cores together."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def read(self, name: str) -> dict:
        """Both, under names that start alike."""
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        return {f"{name}_seconds": wall, f"{name}_cpu_seconds": cpu}


def model(rows: cases.Rows) -> FiniteMDP:
    """The same rows, checked."""
    return FiniteMDP.checked(**(rows._asdict() | {"reward": rows.reward[:, None]}))


def only_chain(rows: cases.Rows) -> Chain:
    """Of a model with one action."""
    mdp = model(rows)
    return mdp.under(np.ones((mdp.n_states, 1)))


def check_lake() -> None:
    """Our arrays are those of Gymnasium."""
    board = generate_random_map(size=12, p=0.8, seed=3)
    theirs = finite_mdp(gymnasium.make("FrozenLake-v1", desc=board))
    ours = model(cases.lake(np.array([list(row) for row in board])))
    chains = [m.under(np.full((m.n_states, 4), 0.25)) for m in (ours, theirs)]
    means = [mean_return(chain, LAKE_GAMMA) for chain in chains]
    going_on = [chain.going_on().toarray() for chain in chains]
    np.testing.assert_allclose(*going_on, atol=1e-12)
    np.testing.assert_allclose(*means, atol=1e-12)


def compile_updates() -> None:
    """By small models."""
    mdp = model(cases.random_mdp(n_states=50, n_actions=2))
    certify(mdp.under(optimal_policy(mdp, NORMAL_GAMMA)), NORMAL_GAMMA, accuracy=0.1)
    # Enough states for iterative solutions of linear systems.
    certify(only_chain(cases.integer_chain(n_states=2_100, seed=1)), 1.0)


def measured(chain: Chain, gamma: float, **options: Any) -> tuple[Certified, dict]:
    """The certified distributions, and what they took."""
    clock = Clock()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = certify(chain, gamma, memory_gb=4.0, **options)
    seconds = clock.read("certify")
    low, high = found.range
    start = found.certificate(np.array([np.argmax(chain.start)]))
    worst = max(
        float(found.certificate(some).w1().max())
        for some in np.array_split(np.arange(chain.n_states), 1 + chain.n_states // 20_000)
    )
    cvar_low, cvar_high = (float(end[0]) for end in start.cvar(ALPHA))
    return found, seconds | {
        "states": chain.n_states,
        "options": options,
        "cells": found.grid.n_cells,
        "updates": found.n_updates,
        "range": [low, high],
        "accuracy": found.accuracy,
        "worst_w1_share": worst / (high - low),
        "start_cvar": [cvar_low, cvar_high],
        "start_cvar_width": cvar_high - cvar_low,
        "start_mean": float(start.mean_and_error[0, 0]),
    }


def lake(size: int, kind: str, value: float, board: Any = cases.random_board) -> dict:
    """The optimal policy of a random lake, and its return distributions."""
    check_lake()
    mdp = model(cases.lake(board(size)))
    built = peak_gb()
    clock = Clock()
    chain = mdp.under(optimal_policy(mdp, LAKE_GAMMA))
    seconds = clock.read("policy")
    del mdp
    options = {"accuracy": value} if kind == "accuracy" else {"n_cells": int(value)}
    found, result = measured(chain, LAKE_GAMMA, **options)
    # Far from the goal nearly all returns are 0: how many states are not that easy.
    uncertain = float((found.moments.variance > 1e-6).mean())
    return {"size": size, "built_gb": built, "states_with_variance": uncertain} | seconds | result


def normal(share: float) -> dict:
    """A different normal reward on every transition."""
    return measured(only_chain(cases.normal_chain()), NORMAL_GAMMA, accuracy=share)[1]


def storm(share: float) -> dict:
    """Brackets for the probability that the return from the initial state is at most each bound."""
    found, result = measured(only_chain(cases.integer_chain()), 1.0, accuracy=share)
    start = found.certificate(np.array([0]))
    brackets = [[float(end[0]) for end in start.prob_at_most(b)] for b in cases.BOUNDS]
    return result | {"brackets": brackets}


def means() -> dict:
    """Values of the optimal policy."""
    mdp = model(cases.random_mdp())
    clock = Clock()
    values = mean_return(mdp.under(optimal_policy(mdp, cases.MEANS_GAMMA)), cases.MEANS_GAMMA)
    return clock.read("policy") | {"states": mdp.n_states, "values": values[:, 0].tolist()}


def peak_gb() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """One job."""
    job, *arguments = sys.argv[1:]
    load = os.getloadavg()[0]
    compile_updates()
    if job in ("lake", "goals"):
        board = cases.random_board if job == "lake" else cases.board_of_goals
        result = lake(int(arguments[0]), arguments[1], float(arguments[2]), board)
    elif job == "means":
        result = means()
    else:
        result = {"normal": normal, "storm": storm}[job](float(arguments[0]))
    print(json.dumps(result | {"peak_gb": peak_gb(), "load_before": load}))


if __name__ == "__main__":
    main()
