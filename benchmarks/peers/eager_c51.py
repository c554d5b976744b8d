"""A plain eager PyTorch C51 with CleanRL's settings on CartPole.

Prints JSON: steps a second after learning has started.
"""

import itertools
import json
import random
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent))
import control_cases as cases


class Replay:
    """Arrays of the last transitions."""

    def __init__(self, size: int, n_features: int) -> None:
        self.obs = np.zeros((size, n_features), np.float32)
        self.following = np.zeros((size, n_features), np.float32)
        self.action = np.zeros(size, np.int64)
        self.reward = np.zeros(size, np.float32)
        self.done = np.zeros(size, np.float32)
        self.size, self.n = size, 0
        self.rng = np.random.default_rng(0)

    def add(self, *row) -> None:
        i = self.n % self.size
        self.obs[i], self.action[i], self.reward[i], self.following[i], self.done[i] = row
        self.n += 1

    def sample(self, batch: int):
        i = self.rng.integers(0, min(self.n, self.size), batch)
        arrays = (self.obs, self.action, self.reward, self.following, self.done)
        return [torch.from_numpy(a[i]) for a in arrays]


class Network(nn.Module):
    """Atoms of every action."""

    def __init__(self, n_features: int, n_actions: int) -> None:
        super().__init__()
        sizes = (n_features, *cases.HIDDEN)
        layers = []
        for a, b in itertools.pairwise(sizes):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Linear(sizes[-1], n_actions * cases.ATOMS))
        self.n_actions = n_actions
        self.atoms = torch.linspace(*cases.SUPPORT, cases.ATOMS)

    def weights(self, x):
        return torch.softmax(self.net(x).view(len(x), self.n_actions, cases.ATOMS), dim=2)

    def best(self, x):
        weights = self.weights(x)
        return torch.argmax((weights * self.atoms).sum(2), 1), weights


def update(network, target, optimiser, replay) -> None:
    obs, action, reward, following, done = replay.sample(cases.BATCH)
    rows = torch.arange(cases.BATCH)
    with torch.no_grad():
        best, weights = target.best(following)
        weights = weights[rows, best]
        low, high = cases.SUPPORT
        spacing = target.atoms[1] - target.atoms[0]
        moved = reward[:, None] + cases.GAMMA * target.atoms * (1 - done[:, None])
        place = (moved.clamp(low, high) - low) / spacing
        left = place.floor().clamp(0, cases.ATOMS - 1)
        right = place.ceil().clamp(0, cases.ATOMS - 1)
        to_left = (right + (left == right).float() - place) * weights
        to_right = (place - left) * weights
        wanted = torch.zeros_like(weights)
        wanted.scatter_add_(1, left.long(), to_left)
        wanted.scatter_add_(1, right.long(), to_right)
    weights = network.weights(obs)[rows, action]
    loss = -(wanted * weights.clamp(1e-5, 1 - 1e-5).log()).sum(-1).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def main() -> None:
    torch.set_num_threads(1)
    random.seed(0)
    torch.manual_seed(0)
    env = gym.make("CartPole-v1")
    network, target = Network(4, 2), Network(4, 2)
    target.load_state_dict(network.state_dict())
    optimiser = torch.optim.Adam(network.parameters(), cases.LEARNING_RATE, eps=0.01 / cases.BATCH)
    replay = Replay(cases.REPLAY, 4)
    obs, _ = env.reset(seed=0)
    start = 0.0
    for step in range(cases.WARM_UP + cases.STEPS):
        if step == cases.WARM_UP:
            start = time.perf_counter()
        epsilon = 0.1
        if random.random() < epsilon:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action = int(network.best(torch.from_numpy(obs)[None])[0])
        following, reward, terminated, truncated, _ = env.step(action)
        replay.add(obs, action, reward, following, terminated)
        obs = following
        if terminated or truncated:
            obs, _ = env.reset()
        if step >= cases.WARM_UP:
            if step % cases.STEPS_PER_UPDATE == 0:
                update(network, target, optimiser, replay)
            if step % cases.TARGET_EVERY == 0:
                target.load_state_dict(network.state_dict())
    print(json.dumps({"steps_per_second": cases.STEPS / (time.perf_counter() - start)}))


if __name__ == "__main__":
    main()
