"""Exact distributions: two independent ways, a closed form and simulation agree."""

import gymnasium as gym
import numpy as np
import pytest
from scipy.stats import norm

from bellman_diffusion.environments.transition_tables import blackjack, finite_mdp
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.mdp import FiniteMDP, check_gamma
from bellman_diffusion.returns.moments import mean_return, possible_returns, second_moment
from bellman_diffusion.returns.reference import (
    CharacteristicReference,
    atoms_at_the_end,
    rewards_only_at_the_end,
)
from bellman_diffusion.returns.tabular_policies import (
    mix_with_random,
    optimal_policy,
    random_policy,
)
from tests.returns.chains import chain_of_table, random_chain, two_state_atoms, two_states


def frozen_lake(gamma=0.99, **options):
    mdp = finite_mdp(gym.make("FrozenLake-v1", **options))
    return mdp.under(optimal_policy(mdp, gamma))


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_characteristic_law_is_that_of_the_unrolled_two_state_chain(gamma):
    atoms, probabilities = two_state_atoms(gamma)
    distribution = CharacteristicReference(two_states(), gamma, sigma=0.2)
    x = np.linspace(0, 12, 200)
    truth = probabilities @ norm.cdf((x[None] - atoms[:, None]) / 0.2)
    assert np.allclose(distribution.cdf(x)[0], truth, atol=1e-7)
    # A loop without discount may go on for ever: there the bound by proof is Cantelli's.
    assert distribution.error < (1e-11 if gamma < 1 else 2e-3)


@pytest.mark.parametrize("gamma", [0.95, 1.0])
def test_atoms_and_characteristic_function_agree_on_frozen_lake(gamma):
    chain = frozen_lake(gamma)
    x = np.linspace(-0.2, 1.2, 300)
    distribution = CharacteristicReference(chain, gamma, sigma=0.05)
    assert rewards_only_at_the_end(chain)
    assert np.allclose(distribution.cdf(x), atoms_at_the_end(chain, gamma).cdf(x, 0.05), atol=1e-7)


def test_moments_are_those_of_the_unrolled_chain():
    atoms, probabilities = two_state_atoms(0.9)
    chain = two_states()
    assert mean_return(chain, 0.9)[0, 0] == pytest.approx(probabilities @ atoms)
    assert second_moment(chain, 0.9)[0, 0, 0] == pytest.approx(probabilities @ atoms**2)


def test_bounds_hold_the_returns_and_are_attained_in_a_chain_without_loops():
    chain = chain_of_table(
        [
            [(0.5, 1, 1.0, False), (0.5, 2, -2.0, False)],
            [(1.0, 1, 3.0, True)],
            [(1.0, 2, 5.0, True)],
        ]
    )
    # From state 0: 1 + 0.5·3 or −2 + 0.5·5; from the others 3 and 5.
    limits = possible_returns(chain, 0.5)
    assert (limits[:, 0].min(), limits[:, 1].max()) == pytest.approx((0.5, 5.0))
    assert possible_returns(two_states(), 1.0)[:, 1].max() == np.inf


def test_policy_iteration_finds_the_values_of_value_iteration():
    mdp = finite_mdp(gym.make("FrozenLake-v1", map_name="8x8"))
    values = np.zeros(mdp.n_states)
    for _ in range(3000):
        quality = np.zeros((mdp.n_states, mdp.n_actions))
        target = mdp.reward[:, 0] + 0.97 * np.where(mdp.done, 0, values[mdp.next_state])
        np.add.at(quality, (mdp.state, mdp.action), mdp.probability * target)
        values = quality.max(axis=1)
    found = mean_return(mdp.under(optimal_policy(mdp, 0.97)), 0.97)[:, 0]
    assert np.allclose(found, values, atol=1e-8)


def test_optimal_policy_without_discount_ends_the_episode():
    mdp = finite_mdp(gym.make("CliffWalking-v1"))
    values = mean_return(mdp.under(optimal_policy(mdp, 1.0)), 1.0)
    assert values[36, 0] == pytest.approx(-13)  # the shortest way along the cliff


def test_gamma_one_is_refused_where_an_episode_never_ends():
    chain = chain_of_table([[(1.0, 0, 1.0, False)], [(1.0, 1, 0.0, True)]])
    with pytest.raises(InvalidInputError, match="never ends from state 0"):
        check_gamma(1.0, chain)
    for gamma in (0.0, -1.0, 1.5):
        with pytest.raises(InvalidInputError, match="must be in"):
            check_gamma(gamma)


def test_a_table_with_wrong_probabilities_is_refused():
    with pytest.raises(InvalidInputError, match="add up to"):
        FiniteMDP.from_table([[[(0.9, 0, 0.0, True)]]])


def test_an_environment_without_a_table_is_refused():
    with pytest.raises(InvalidInputError, match="--samples"):
        finite_mdp(gym.make("CartPole-v1"))


def test_mixing_with_random_keeps_probabilities():
    mdp = finite_mdp(gym.make("FrozenLake-v1"))
    mixed = mix_with_random(optimal_policy(mdp, 0.9), 0.2, mdp)
    assert np.allclose(mixed.sum(axis=1), 1)
    assert mixed.min() == pytest.approx(0.05)
    with pytest.raises(InvalidInputError, match="epsilon"):
        mix_with_random(mixed, 1.5, mdp)


@pytest.mark.parametrize(("sab", "natural"), [(True, False), (False, True), (False, False)])
def test_blackjack_table_gives_the_mean_reward_of_simulated_games(sab, natural):
    """Stick at 17 or more; 40,000 games, 4 standard errors."""
    mdp = blackjack(sab=sab, natural=natural)
    policy = np.zeros((mdp.n_states, 2))
    total = np.concatenate([np.unravel_index(np.arange(704), (32, 11, 2))[0], np.full(10, 21)])
    policy[np.arange(mdp.n_states), (total < 17).astype(int)] = 1
    exact = mdp.start @ mean_return(mdp.under(policy), 1.0)[:, 0]
    env = gym.make("Blackjack-v1", sab=sab, natural=natural).unwrapped
    env.reset(seed=0)
    rewards = []
    for _ in range(40_000):
        observation, _ = env.reset()
        done = False
        while not done:
            observation, reward, done, _, _ = env.step(int(observation[0] < 17))
        rewards.append(reward)
    assert abs(np.mean(rewards) - exact) < 4 * np.std(rewards) / 200


def test_random_chains_agree_with_simulation():
    """W1 to 20,000 simulated returns is below 0.03 standard deviations."""
    chain, gamma = random_chain(3), 0.8
    distribution = CharacteristicReference(chain, gamma, sigma=0.05)
    rng = np.random.default_rng(0)
    returns = np.array([simulate(chain, gamma, rng) for _ in range(20_000)])
    x = np.linspace(distribution.low, distribution.high, 2000)
    smoothed = returns + 0.05 * rng.normal(size=len(returns))
    empirical = np.searchsorted(np.sort(smoothed), x) / len(returns)
    assert np.trapezoid(np.abs(empirical - distribution.cdf(x)[0]), x) < 0.03 * returns.std()


def simulate(chain, gamma, rng):
    state, total, discount = 0, 0.0, 1.0
    while discount > 1e-4:
        rows = np.flatnonzero(chain.state == state)
        row = rng.choice(rows, p=chain.probability[rows] / chain.probability[rows].sum())
        total += discount * chain.reward[row, 0]
        if chain.done[row]:
            break
        state, discount = chain.next_state[row], discount * gamma
    return total


def test_random_policy_is_even():
    assert np.allclose(random_policy(finite_mdp(gym.make("Taxi-v4"))), 1 / 6)
