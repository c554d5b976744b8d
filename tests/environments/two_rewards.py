"""A task with two rewards, registered as MO-Gymnasium's are: their form is `reward_space`."""

import gymnasium as gym
import numpy as np


class Errand(gym.Env):
    """Each step costs a minute; at each the errand ends with probability ½, or a coin is found.

    So the number of coins is the number of minutes less one: returns are (−minutes, coins), and with
    γ = 1 their correlation is −1. The observation says nothing.
    """

    observation_space = gym.spaces.Box(0, 1, (1,))
    action_space = gym.spaces.Discrete(2)
    reward_space = gym.spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        over = bool(self.np_random.uniform() < 0.5)
        reward = np.array([-1.0, 0.0 if over else 1.0], np.float32)
        return np.zeros(1, np.float32), reward, over, False, {}


if "tests/Errand-v0" not in gym.registry:
    gym.register("tests/Errand-v0", Errand, max_episode_steps=60)
