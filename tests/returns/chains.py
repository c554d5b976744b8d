"""Small chains with known distributions, for the tests of this folder."""

import numpy as np

from bellman_diffusion.returns.mdp import FiniteMDP


def chain_of_table(table, start=None):
    """The chain of a table with one action."""
    mdp = FiniteMDP.from_table([[rows] for rows in table], start)
    return mdp.under(np.ones((mdp.n_states, 1)))


def two_states(p=0.4, reward=1.0, end=2.0):
    """0 → 1 for certain with `reward`; 1 ends with `end` (probability p) or goes back to 0."""
    return chain_of_table([[(1.0, 1, reward, False)], [(p, 1, end, True), (1 - p, 0, 0.0, False)]])


def two_state_atoms(gamma, n_terms=400, p=0.4, reward=1.0, end=2.0):
    """Atoms and probabilities of the return from state 0, by unrolling the loop."""
    atoms, probabilities = [], []
    for k in range(n_terms):
        loops = reward * sum(gamma ** (2 * i) for i in range(k + 1))
        atoms.append(loops + gamma ** (2 * k + 1) * end)
        probabilities.append(p * (1 - p) ** k)
    return np.array(atoms), np.array(probabilities)


def random_chain(seed, n_states=6, n_rewards=3, dim=1):
    """Random transitions and rewards; each row ends with probability 0.2."""
    rng = np.random.default_rng(seed)
    rewards = rng.normal(size=(n_rewards, dim))
    table = []
    for _ in range(n_states):
        p = rng.dirichlet(np.ones(4))
        table.append(
            [
                (
                    float(q),
                    int(rng.integers(n_states)),
                    rewards[rng.integers(n_rewards)],
                    bool(rng.uniform() < 0.2),
                )
                for q in p
            ]
        )
    table[0][0] = (table[0][0][0], 0, table[0][0][2], True)
    return chain_of_table(table)
