"""Quantile regression DQN of sb3-contrib on CartPole.

Prints JSON: steps a second with CleanRL's settings of C51; with --solve, the seconds and the steps
until a greedy evaluation reaches SOLVED with the RL Zoo's tuned settings (null if it never does).
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from sb3_contrib import QRDQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

sys.path.insert(0, str(Path(__file__).parent.parent))
import control_cases as cases

SPEED = {
    "learning_rate": cases.LEARNING_RATE,
    "batch_size": cases.BATCH,
    "buffer_size": cases.REPLAY,
    # Learning starts within the warm-up, so that the first updates are not timed.
    "learning_starts": cases.WARM_UP // 2,
    "gamma": cases.GAMMA,
    "target_update_interval": cases.TARGET_EVERY,
    "train_freq": cases.STEPS_PER_UPDATE,
    "gradient_steps": 1,
    "exploration_initial_eps": 0.1,
    "exploration_final_eps": 0.1,
    "policy_kwargs": {"net_arch": list(cases.HIDDEN), "n_quantiles": cases.ATOMS},
}
ZOO = {
    "learning_rate": 2.3e-3,
    "batch_size": 64,
    "buffer_size": 100_000,
    "learning_starts": 1_000,
    "gamma": 0.99,
    "target_update_interval": 10,
    "train_freq": 256,
    "gradient_steps": 128,
    "exploration_fraction": 0.16,
    "exploration_final_eps": 0.04,
    "policy_kwargs": {"net_arch": [256, 256], "n_quantiles": 10},
}
ZOO_STEPS = 50_000
EVALUATE_EVERY = 1_000
EPISODES = 20
SOLVED = 475.0


class UntilSolved(BaseCallback):
    """Evaluates now and then, with the clock stopped, and ends training once solved."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.envs = make_vec_env("CartPole-v1", n_envs=EPISODES, seed=10_000 + seed)
        self.start = 0.0
        self.solved_seconds: float | None = None
        self.solved_steps: int | None = None

    def _on_training_start(self) -> None:
        self.start = time.perf_counter()

    def _on_step(self) -> bool:
        if self.num_timesteps % EVALUATE_EVERY:
            return True
        stopped = time.perf_counter()
        mean, _ = evaluate_policy(self.model, self.envs, EPISODES, deterministic=True)
        print(f"{self.num_timesteps} steps: mean return {mean:.1f}", file=sys.stderr)
        if mean >= SOLVED:
            self.solved_seconds = stopped - self.start
            self.solved_steps = self.num_timesteps
            return False
        self.start += time.perf_counter() - stopped
        return True


def speed(seed: int) -> dict:
    model = QRDQN("MlpPolicy", "CartPole-v1", seed=seed, device="cpu", **SPEED)
    model.learn(cases.WARM_UP)
    start = time.perf_counter()
    model.learn(cases.STEPS, reset_num_timesteps=False)
    return {"steps_per_second": cases.STEPS / (time.perf_counter() - start)}


def solve(seed: int) -> dict:
    model = QRDQN("MlpPolicy", "CartPole-v1", seed=seed, device="cpu", **ZOO)
    until = UntilSolved(seed)
    model.learn(ZOO_STEPS, callback=until)
    return {"solved_seconds": until.solved_seconds, "solved_steps": until.solved_steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--solve", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(json.dumps((solve if options.solve else speed)(options.seed)))


if __name__ == "__main__":
    main()
