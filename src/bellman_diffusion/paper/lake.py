"""Slippery FrozenLake 4×4 under the optimal policy, which several experiments look at."""

import gymnasium as gym

from bellman_diffusion.environments import finite_mdp
from bellman_diffusion.returns.mdp import Chain
from bellman_diffusion.returns.tabular_policies import optimal_policy

GAMMA, SIGMA = 0.99, 0.05


def lake_chain() -> Chain:
    """The chain of its states."""
    mdp = finite_mdp(gym.make("FrozenLake-v1"))
    return mdp.under(optimal_policy(mdp, GAMMA))
