"""Environments with several rewards, or one reward with several discounts: the return is a vector."""

from typing import Any

import gymnasium as gym
import numpy as np
from jaxtyping import Float

from bellman_diffusion.errors import InvalidInputError


def n_rewards(env: gym.Env) -> int:
    """Rewards of a step, as MO-Gymnasium's `reward_space` tells them; 0 where a reward is a number."""
    shape = getattr(getattr(env.unwrapped, "reward_space", None), "shape", None)
    return int(np.prod(shape)) if shape else 0


def component_discounts(
    rewards: int, gamma: float, also: tuple[float, ...]
) -> Float[np.ndarray, " dim"] | None:
    """γ of every component: all rewards at each discount. None where the return is a number."""
    if not rewards and not also:
        return None
    return np.repeat(np.array([gamma, *also]), max(rewards, 1))


def component_names(rewards: int, gamma: float, also: tuple[float, ...]) -> list[str]:
    """In the order of `component_discounts`."""
    parts = [f"reward {i}" for i in range(rewards)] or ["return"]
    return [f"{part}, γ = {g:g}" if also else part for g in (gamma, *also) for part in parts]


class VectorRewards(gym.Wrapper):
    """The vector is kept as `rewards`, because Gymnasium's vector API has room for one number."""

    def __init__(self, env: gym.Env, n_components: int) -> None:
        super().__init__(env)
        self.rewards: Float[np.ndarray, " dim"] = np.zeros(n_components)
        """Of the last step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Each discount has the same rewards."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        given = np.asarray(reward, float).reshape(-1)
        if len(self.rewards) % len(given) or not np.isfinite(given).all():
            raise InvalidInputError(
                f"the environment's reward {reward!r} is not a vector of finite numbers of the form "
                "that its reward_space tells"
            )
        self.rewards = np.tile(given, len(self.rewards) // len(given))
        return observation, 0.0, bool(terminated), bool(truncated), info
