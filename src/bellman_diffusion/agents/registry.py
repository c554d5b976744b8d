"""Tuned settings by environment, each found on seeds that no published figure uses.

An environment that is not listed gets `AgentConfig`'s own defaults.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from bellman_diffusion.agents.algorithms import find_algorithm
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.environments import WINDY_CLIFF


class Entry(NamedTuple):
    """Settings, and why they differ from the defaults."""

    why: str
    settings: dict[str, Any]


ENVIRONMENTS: dict[str, Entry] = {
    "CartPole-v1": Entry(
        "Eight updates in ten steps make it quick; a rate that falls to nothing and some exploration "
        "to the end keep it solved.",
        {
            "steps": 50_000,
            "updates_per_round": 8,
            "epsilon_end": 0.05,
            "n_step": 3,
            "ema_decay": 0.995,
        },
    ),
    "Acrobot-v1": Entry(
        "Rewards of −1 until the goal: long random phase, so that some episode reaches it.",
        {"steps": 100_000, "epsilon_steps": 20_000, "ema_decay": 0.995, "eval_every": 5_000},
    ),
    "MountainCar-v0": Entry(
        "The goal is far: exploration lasts for half of the run.",
        {"steps": 200_000, "epsilon_steps": 100_000, "eval_every": 10_000, "n_step": 10},
    ),
    "LunarLander-v3": Entry(
        "Stepped by the host, eight environments a seed, so that a network call serves eight steps; an "
        "update every two steps and a slowly moving target network.",
        {
            "steps": 200_000,
            "n_envs": 8,
            "steps_per_round": 16,
            "updates_per_round": 8,
            "n_step": 3,
            "hidden": (128, 128),
            "n_outputs": 51,
            "replay": 200_000,
            "learning_starts": 4_000,
            "target_rate": 0.005,
            "epsilon_end": 0.05,
            "epsilon_steps": 40_000,
            "ema_decay": 0.995,
            "eval_every": 20_000,
        },
    ),
    "FrozenLake-v1": Entry(
        "Slippery ice hides what an action does: much exploration, and a slowly moving target network.",
        {
            "steps": 100_000,
            "n_step": 1,
            "epsilon_end": 0.1,
            "epsilon_steps": 30_000,
            "target_rate": 0.005,
            "ema_decay": 0.999,
            "eval_every": 5_000,
            "eval_episodes": 100,
        },
    ),
    "CliffWalking-v1": Entry(
        "Every step costs 1 and the cliff 100; episodes have no time limit of their own.",
        {"steps": 50_000, "n_step": 1, "epsilon_steps": 20_000, "eval_every": 5_000},
    ),
    WINDY_CLIFF: Entry(
        "Until the return distributions are learned, a sure fall looks safest: much exploration.",
        {
            "steps": 40_000,
            "n_step": 1,
            "epsilon_end": 0.2,
            "epsilon_steps": 10_000,
            "support": (-40.0, 0.0),
            "ema_decay": 0.995,
            "eval_every": 5_000,
        },
    ),
    "Breakout-MinAtar": Entry(
        "MinAtar's own network (16 filters, 128 units), one update in four steps.",
        {
            "steps": 300_000,
            "hidden": (128,),
            "steps_per_round": 8,
            "updates_per_round": 2,
            "batch_size": 32,
            "learning_starts": 5_000,
            "epsilon_steps": 100_000,
            "eval_every": 20_000,
            "n_step": 3,
        },
    ),
}
_SAME = {"MinAtar/Breakout-v1": "Breakout-MinAtar"}
# The other MinAtar games take Breakout's settings.
for _game in ("Asterix", "Freeway", "Seaquest", "SpaceInvaders"):
    ENVIRONMENTS[f"{_game}-MinAtar"] = ENVIRONMENTS["Breakout-MinAtar"]
    _SAME[f"MinAtar/{_game}-v1"] = f"{_game}-MinAtar"


def default_config(env_id: str, **changes: Any) -> AgentConfig:
    """The settings of an environment with some of them changed.

    `steps` is rounded up to whole intervals between evaluations.
    """
    entry = ENVIRONMENTS.get(_SAME.get(env_id, env_id))
    algorithm = find_algorithm(changes.get("algo", AgentConfig.algo))
    settings = (entry.settings if entry else {}) | dict(algorithm.settings) | changes
    steps = settings.pop("steps", AgentConfig.steps)
    # What is below 1 is refused by `AgentConfig` itself.
    rounds = max(settings.get("steps_per_round", AgentConfig.steps_per_round), 1)
    every = max(settings.get("eval_every", AgentConfig.eval_every), 1)
    if "eval_every" not in changes:
        # A short run is evaluated at least once, at its end.
        every = min(every, -(-steps // rounds) * rounds)
    every = -(-every // rounds) * rounds
    return replace(
        AgentConfig(env_id, steps=every, **(settings | {"eval_every": every})),
        steps=-(-steps // every) * every,
    )
