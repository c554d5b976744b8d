"""Policies for the whole return: against every stationary policy, and against plain simulation."""

from itertools import product

import gymnasium as gym
import numpy as np
import pytest

from bellman_diffusion.environments import finite_mdp
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.paper.risk_models import betting, inventory
from bellman_diffusion.planning import Planner, PlanSettings, plan
from bellman_diffusion.planning.certify import certify
from bellman_diffusion.planning.monte_carlo import MonteCarlo
from bellman_diffusion.planning.risk_optimal import (
    Objective,
    StockPolicy,
    controlled_chain,
    risk_optimal_policy,
)


def figures(mdp, gamma, policy):
    chain = mdp.under(policy)
    start = int(np.argmax(mdp.start))
    return certify(chain, gamma, n_cells=66).certificate(np.array([start]))


def best_stationary(mdp, gamma, figure, policies):
    """The best upper bound among deterministic stationary policies."""
    eye = np.eye(mdp.n_actions)
    return max(figure(figures(mdp, gamma, eye[list(policy)])) for policy in policies)


def optimal(mdp, gamma, objective):
    policy = risk_optimal_policy(mdp, gamma, Objective.parse(objective), n_stocks=513)
    controlled = controlled_chain(mdp, policy)
    start = np.array([0])
    assert controlled.state[0] == np.argmax(mdp.start)
    return policy, controlled, certify(controlled.chain, gamma, accuracy=3e-3).certificate(start)


CASES = [(betting, 1.0), (inventory, 0.9)]


@pytest.mark.parametrize(("make", "gamma"), CASES)
def test_cvar_is_at_least_that_of_every_stationary_policy(make, gamma):
    """All 27 or 81 deterministic ones; 1e-3 for the grid of stocks."""
    mdp = make()
    n = 3 if make is betting else 4
    others = [(*p, *[0] * (mdp.n_states - n)) for p in product(range(3), repeat=n)]
    best = best_stationary(mdp, gamma, lambda c: c.cvar(0.1)[0][0], others)
    policy, _, found = optimal(mdp, gamma, "cvar:0.1")
    assert found.cvar(0.1)[0][0] >= best - 1e-3
    # What dynamic programming promises is what the controller gets.
    assert policy.value == pytest.approx(found.cvar(0.1)[1][0], abs=0.05)


def test_quantiles_and_probabilities_are_optimised_too():
    """Among all 27 stationary bets. Whoever plays for +1 or more may stop when it is reached."""
    mdp = betting()
    others = [(*p, 0) for p in product(range(3), repeat=3)]
    _, _, found = optimal(mdp, 1.0, "above:1")
    best = best_stationary(mdp, 1.0, lambda c: 1 - c.prob_below(1.0)[1][0], others)
    assert 1 - found.prob_below(1.0)[1][0] >= best - 1e-3
    # Bet 1 until ahead: 0.6 + 0.4·0.6·0.6 = 0.744 (after a loss two wins are needed).
    assert 1 - found.prob_below(1.0)[0][0] >= 0.744 - 1e-6
    _, _, found = optimal(mdp, 1.0, "quantile:0.3")
    best = best_stationary(mdp, 1.0, lambda c: c.quantile(0.3)[0][0], others)
    assert found.quantile(0.3)[1][0] >= best - 1e-3


def test_a_mixture_of_mean_and_cvar_lies_between_both():
    mdp = inventory()
    _, _, safe = optimal(mdp, 0.9, "cvar:0.1")
    _, _, mixed = optimal(mdp, 0.9, "mean-cvar:0.5:0.1")
    _, _, greedy = optimal(mdp, 0.9, "mean-cvar:0:0.1")
    assert safe.mean()[0][0] <= mixed.mean()[1][0] + 1e-3 <= greedy.mean()[1][0] + 2e-3
    assert safe.cvar(0.1)[1][0] >= mixed.cvar(0.1)[0][0] - 1e-3
    assert mixed.cvar(0.1)[1][0] >= greedy.cvar(0.1)[0][0] - 1e-3


def test_the_saved_policy_played_in_the_environment_gets_what_is_certified(tmp_path):
    """FrozenLake 8×8, 2,000 episodes of Gymnasium's own; four standard errors."""
    mdp = finite_mdp(gym.make("FrozenLake-v1", map_name="8x8"))
    p = risk_optimal_policy(mdp, 0.95, Objective.parse("cvar:0.1"), 513)
    p.save(tmp_path / "policy.npz")
    policy = StockPolicy.load(tmp_path / "policy.npz")
    assert np.array_equal(policy.action, p.action)
    found = certify(controlled_chain(mdp, p).chain, 0.95, accuracy=0.01).certificate(np.array([0]))
    env = gym.make("FrozenLake-v1", map_name="8x8", max_episode_steps=1000)
    returns = []
    for seed in range(2000):
        state, _ = env.reset(seed=seed)
        stock, discount, total, over = policy.first, 1.0, 0.0, False
        while not over:
            state_before = state
            state, reward, stop, cut, _ = env.step(int(policy.action[state_before, stock]))
            stock = int(policy.next_stock(stock, reward))
            total += discount * float(reward)
            discount *= 0.95
            over = stop or cut
        returns.append(total)
    seen = MonteCarlo.of(np.array(returns))
    assert abs(seen.mean.value - found.mean()[0][0]) <= 4 * seen.mean.error
    low, high = (b[0] for b in found.cvar(0.1))
    assert low - 4 * seen.cvar_10.error <= seen.cvar_10.value <= high + 4 * seen.cvar_10.error


def test_a_plan_with_an_objective_is_saved_and_answers_from_the_start(tmp_path):
    settings = PlanSettings("bellman/WindyCliff-v0", objective="cvar:0.1", gamma=0.95)
    planner = plan(settings)
    start = planner.distribution(planner.starts)[0]
    mean = plan(PlanSettings("bellman/WindyCliff-v0", gamma=0.95))
    usual = mean.distribution(mean.starts)[0]
    assert start.bounds.cvar(0.1)[0] > usual.bounds.cvar(0.1)[1]
    assert start.bounds.mean()[0] <= usual.bounds.mean()[1]
    planner.save(tmp_path / "planner.bellman")
    loaded = Planner.load(tmp_path / "planner.bellman")
    assert loaded.distribution(loaded.starts)[0].bounds.cvar(0.1) == start.bounds.cvar(0.1)
    with pytest.raises(InvalidInputError, match="from the starts"):
        loaded.distribution([0])


def test_objectives_that_make_no_sense_are_refused():
    for text in ("cvar", "cvar:0", "cvar:x", "quantile:1", "above:inf", "mean:1", "mean-cvar:0.5"):
        with pytest.raises(InvalidInputError, match="objective"):
            Objective.parse(text)
    with pytest.raises(InvalidInputError, match="leave out"):
        plan(PlanSettings("FrozenLake-v1", objective="cvar:0.1", epsilon=0.1))
    with pytest.raises(InvalidInputError, match="no samples"):
        plan(PlanSettings("FrozenLake-v1", objective="cvar:0.1", samples=100))
