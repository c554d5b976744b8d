"""An environment that counts its steps."""

import gymnasium as gym
import numpy as np


class Counter(gym.Env):
    """The observation is the number of steps; with a chance of `stop_at_once` an episode has one."""

    def __init__(self, stop_at_once=0.0, reward=1.0):
        self.observation_space = gym.spaces.Box(0, 1000, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.stop_at_once, self.reward = stop_at_once, reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        self.short = self.np_random.uniform() < self.stop_at_once
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.full(1, self.count, np.float32), self.reward, self.short, False, {}
