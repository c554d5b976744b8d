"""Tianshou's C51 with CleanRL's settings on CartPole: one environment, one update in ten steps.

Prints JSON: steps a second of Tianshou's own trainer, collecting and updating, after a warm-up.
"""

import json
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm.modelfree.c51 import C51, C51Policy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

sys.path.insert(0, str(Path(__file__).parent.parent))
import control_cases as cases


def learner(env: gym.Env) -> C51:
    network = Net(
        state_shape=env.observation_space.shape,
        action_shape=env.action_space.n,
        hidden_sizes=cases.HIDDEN,
        softmax=True,
        num_atoms=cases.ATOMS,
    )
    low, high = cases.SUPPORT
    policy = C51Policy(
        model=network,
        action_space=env.action_space,
        num_atoms=cases.ATOMS,
        v_min=low,
        v_max=high,
        eps_training=0.1,
    )
    return C51(
        policy=policy,
        optim=AdamOptimizerFactory(lr=cases.LEARNING_RATE, eps=0.01 / cases.BATCH),
        gamma=cases.GAMMA,
        target_update_freq=cases.TARGET_EVERY // cases.STEPS_PER_UPDATE,
    )


def train(algorithm: C51, collector: Collector, steps: int) -> float:
    """Seconds that the trainer takes, without tests."""
    settings = OffPolicyTrainerParams(
        training_collector=collector,
        max_epochs=1,
        epoch_num_steps=steps,
        collection_step_num_env_steps=cases.STEPS_PER_UPDATE,
        update_step_num_gradient_steps_per_sample=1 / cases.STEPS_PER_UPDATE,
        batch_size=cases.BATCH,
        verbose=False,
        show_progress=False,
    )
    trainer = algorithm.create_trainer(settings)
    start = time.perf_counter()
    trainer.run(reset_collectors=False)
    return time.perf_counter() - start


def main() -> None:
    torch.set_num_threads(1)
    np.random.seed(0)  # noqa: NPY002 - Tianshou draws from NumPy's global generator
    torch.manual_seed(0)
    algorithm = learner(gym.make("CartPole-v1"))
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")])
    envs.seed(0)
    buffer = VectorReplayBuffer(cases.REPLAY, len(envs))
    collector = Collector(algorithm, envs, buffer, exploration_noise=True)
    collector.reset()
    # The warm-up has updates too: the first one compiles Tianshou's Numba functions.
    train(algorithm, collector, cases.WARM_UP)
    seconds = train(algorithm, collector, cases.STEPS)
    print(json.dumps({"steps_per_second": cases.STEPS / seconds}))


if __name__ == "__main__":
    main()
