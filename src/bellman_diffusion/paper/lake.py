"""Slippery FrozenLake 4×4 under the optimal policy, which several experiments look at."""

import os
from dataclasses import dataclass

import gymnasium as gym
import numpy as np

from bellman_diffusion.environments import finite_mdp
from bellman_diffusion.errors import BellmanError
from bellman_diffusion.returns.mdp import Chain
from bellman_diffusion.returns.tabular_policies import optimal_policy

GAMMA, SIGMA = 0.99, 0.05


def lake_chain() -> Chain:
    """The chain of its states."""
    mdp = finite_mdp(gym.make("FrozenLake-v1"))
    return mdp.under(optimal_policy(mdp, GAMMA))


@dataclass(frozen=True)
class Frame:
    """One panel of the figure: a moment of an episode."""

    step: int
    state: int
    picture: np.ndarray


def trajectory(seed: int, n_frames: int = 6) -> list[Frame]:
    """A whole episode under the optimal policy that reaches the goal, at evenly spaced steps.

    The shortest of many: on slippery ice most wander for long.
    """
    # No window is wanted; without this the renderer looks for a screen.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    env = gym.make("FrozenLake-v1", render_mode="rgb_array")
    policy = optimal_policy(finite_mdp(env), GAMMA).argmax(axis=1)
    shortest: list[Frame] = []
    for attempt in range(40):
        state, _ = env.reset(seed=seed + attempt)
        frames = [Frame(0, int(state), np.asarray(env.render()))]
        done, reward = False, 0.0
        while not done:
            state, reward, stop, cut, _ = env.step(int(policy[state]))
            done = stop or cut
            frames.append(Frame(len(frames), int(state), np.asarray(env.render())))
        shorter = not shortest or len(frames) < len(shortest)
        if float(reward) > 0 and len(frames) > n_frames and shorter:
            shortest = frames
    if not shortest:
        raise BellmanError(f"no episode from seed {seed} on reached the goal; try another --seed")
    # The last state has no future: the panel before it is the last with a return to come.
    pick = np.linspace(0, len(shortest) - 2, n_frames).round().astype(int)
    return [shortest[i] for i in pick]
