"""Integer returns, level by level: against sums of matrix powers and against simulation."""

import numpy as np
import pytest

from bellman_diffusion.planning.cells import Transitions, lattice_step
from bellman_diffusion.planning.certify import certify
from bellman_diffusion.planning.lattice import exact_levels
from bellman_diffusion.planning.monte_carlo import simulate
from bellman_diffusion.returns.mdp import FiniteMDP
from bellman_diffusion.returns.moments import return_moments


def random_chain(seed, sign=1.0, n=12):
    """Rewards 0 to 3; a quarter of the transitions pay nothing and may go round."""
    rng = np.random.default_rng(seed)
    table = []
    for _ in range(n):
        p = rng.dirichlet(np.ones(4))
        rows = [(p[0], 0, sign * float(rng.integers(4)), True)]
        rows += [(q, int(rng.integers(n)), sign * float(rng.integers(4)), False) for q in p[1:]]
        table.append([rows])
    mdp = FiniteMDP.from_table(table)
    return mdp.under(np.ones((n, 1)))


def probabilities(chain, n_levels):
    """By plain iteration of the Bellman equation on all levels at once, 4,000 times."""
    units = np.abs(chain.reward[:, 0]).astype(int)
    x = np.zeros((chain.n_states, n_levels))
    for _ in range(4000):
        new = np.zeros_like(x)
        for s, p, z, u, over in zip(
            chain.state, chain.probability, chain.next_state, units, chain.done, strict=True
        ):
            if over:
                new[s, u] += p
            else:
                new[s, u:] += p * x[z, : n_levels - u]
        if np.abs(new - x).max() < 1e-16:
            break
        x = new
    return x


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("seed", range(3))
def test_every_level_has_its_probability(seed, sign):
    chain = random_chain(seed, sign)
    found = certify(chain, 1.0)
    assert found.n_updates == 0
    levels = np.round((found.grid.returns(np.arange(found.grid.n_cells) + 0.5)) * sign).astype(int)
    inner = slice(0, -1) if sign > 0 else slice(1, None)
    truth = probabilities(chain, 8 * found.grid.n_cells)
    np.testing.assert_allclose(
        found.cells.mass[:, inner], truth[:, levels[inner]], atol=found.rounding + 1e-15
    )
    assert found.rounding < 1e-10
    # What is beyond the last level has the mass that is left, its mean and its variance.
    last = -1 if sign > 0 else 0
    beyond = truth[:, np.abs(levels[last]) :].sum(axis=1)
    np.testing.assert_allclose(found.cells.mass[:, last], beyond, atol=1e-8)
    whole = (found.cells.mass * (np.arange(found.grid.n_cells) + found.cells.offset)).sum(axis=1)
    np.testing.assert_allclose(found.grid.returns(whole), found.moments.mean, atol=1e-9)


def test_brackets_contain_what_simulation_finds():
    """10⁵ episodes, four standard errors; both tails, probabilities, quantiles."""
    chain = random_chain(7)
    bounds = certify(chain, 1.0).certificate(np.array([3]))
    returns = np.sort(simulate(chain, 1.0, 3, 100_000, 0)[:, 0])
    for x in (0, 1, 4, 9):
        low, high = (b[0] for b in bounds.prob_at_most(float(x)))
        assert high - low < 1e-6
        assert abs(np.mean(returns <= x) - low) < 4 * np.sqrt(0.25 / 1e5)
    low, high = (b[0] for b in bounds.cvar(0.1, tail="upper"))
    assert high - low < 1e-3
    assert returns[-10_000:].mean() == pytest.approx(low, abs=0.2)


def test_rewards_of_both_signs_and_too_little_memory_are_left_to_cells():
    chain = random_chain(1)
    mixed = chain._replace(reward=chain.reward * np.where(chain.done, -1, 1)[:, None])
    for case, memory in ((mixed, 1.0), (chain, 1e-9)):
        rows = Transitions.of(case)
        assert exact_levels(rows, 1.0, return_moments(case, 1.0), memory) is None
    found = certify(mixed, 1.0)
    assert found.n_updates > 0
    assert found.accuracy < 1e-3


def test_the_step_of_rewards():
    assert lattice_step(np.array([0.0, 1.5, -3.0])) == pytest.approx(1.5)
    assert lattice_step(np.array([0.1, 0.25])) == pytest.approx(0.05)
    assert lattice_step(np.array([1.0, np.pi])) == 0
    assert lattice_step(np.zeros(3)) == 0
