"""A recorded episode: frames, return distributions of every action, expected and real returns."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.view.packing import pack, pack_frames, rounded

ALPHA = 0.1
BAND = (0.05, 0.95)
N_POINTS = 321
# Steps of an episode that are played, and shown at most.
LONGEST = 1000
# The share of a return that may be missing from what followed in an episode that was cut off.
_NEGLIGIBLE = 0.05
_ACTION_NAMES = {
    "Acrobot": ("−1", "0", "+1"),
    "Blackjack": ("stick", "hit"),
    "CartPole": ("left", "right"),
    "CliffWalking": ("up", "right", "down", "left"),
    "FrozenLake": ("left", "down", "right", "up"),
    "LunarLander": ("none", "left", "main", "right"),
    "MountainCar": ("left", "none", "right"),
    "Taxi": ("south", "north", "east", "west", "pick up", "drop"),
}


class ActionReturns(NamedTuple):
    """Return distributions at each step: of every action, and of what the policy does."""

    x: Float[np.ndarray, " points"]
    density: Float[np.ndarray, "steps actions points"]
    gradient: Float[np.ndarray, "steps actions points"]
    mean: Float[np.ndarray, "steps actions"]
    cvar: Float[np.ndarray, "steps actions"]
    expected: Float[np.ndarray, " steps"]
    low: Float[np.ndarray, " steps"]
    high: Float[np.ndarray, " steps"]


class Episode(NamedTuple):
    """What happened: `returns`, `frames` and `actions` of the steps shown, `rewards` of all."""

    name: str
    env_id: str
    gamma: float
    frames: list[UInt8[np.ndarray, "h w 3"]]
    actions: list[int]
    rewards: list[float]
    terminated: bool
    returns: ActionReturns
    note: str = ""
    over: bool = True
    """Whether the episode had ended when the recording did."""
    needed: list[float] | None = None
    """The return that is still missing to the level that a policy plays for, where it has one."""


def followed(rewards: Sequence[float], gamma: float) -> Float[np.ndarray, " steps"]:
    """The discounted return realized from each step on."""
    total, found = 0.0, []
    for reward in reversed(rewards):
        total = BellmanBackup(reward, gamma).returns(total)
        found.append(total)
    return np.array(found[::-1])


def sure_until(n_steps: int, gamma: float, terminated: bool) -> int:
    """Up to which step all that followed was seen, but for a negligible share."""
    if terminated:
        return n_steps
    if gamma == 1:
        return 0
    return max(0, n_steps - math.ceil(math.log(_NEGLIGIBLE) / math.log(gamma)))


def action_names(env_id: str, n: int) -> list[str]:
    """What the actions do, where we know it."""
    for prefix, names in _ACTION_NAMES.items():
        if env_id.startswith(prefix) and len(names) == n:
            return list(names)
    return [f"action {k}" for k in range(n)]


def episode_to_json(episode: Episode) -> dict[str, Any]:
    """For the page."""
    returns, n = episode.returns, len(episode.actions)
    frames, which = pack_frames(episode.frames)
    n_actions = returns.density.shape[1]
    only_policy = n_actions == 1
    return {
        "kind": "episode",
        "name": episode.name,
        "env_id": episode.env_id,
        "note": episode.note,
        "actions": ["the policy"] if only_policy else action_names(episode.env_id, n_actions),
        "only_policy": only_policy,
        "n_steps": n,
        "frames": frames,
        "frame": which,
        "action": episode.actions,
        "reward": rounded(episode.rewards[:n]),
        "needed": None if episode.needed is None else rounded(episode.needed),
        "x": [float(returns.x[0]), float(returns.x[-1])],
        "density": pack(returns.density),
        "gradient": pack(returns.gradient),
        "mean": rounded(returns.mean),
        "cvar": rounded(returns.cvar),
        "expected": rounded(returns.expected),
        "low": rounded(returns.low),
        "high": rounded(returns.high),
        "followed": rounded(followed(episode.rewards, episode.gamma)[:n]),
        "sure_until": min(n, sure_until(len(episode.rewards), episode.gamma, episode.terminated)),
        "total": float(np.sum(episode.rewards)),
        "length": len(episode.rewards),
        "over": episode.over,
    }
