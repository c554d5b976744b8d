"""An agent's episode, with the laws that it chose by."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np

from bellman_diffusion.agents.agent import Agent
from bellman_diffusion.agents.episodes import play
from bellman_diffusion.view.episode import BAND, LONGEST, N_POINTS, WORST, Episode, Laws


def record_agent(run: Path, seed: int, steps: int) -> Episode:
    """A greedy episode: its first `steps` steps in full, the others' rewards."""
    agent = Agent.load(run)
    shown, rewards, last = [], [], None
    for moment in play(agent, seed, LONGEST):
        if len(shown) < steps:
            shown.append(moment)
        rewards.append(moment.reward)
        # Frames are large: those that are not shown are let go.
        last = moment
    assert last is not None
    laws = agent.returns([m.observation for m in shown])
    x = np.linspace(float(laws.low), float(laws.high), N_POINTS).astype(np.float32)
    actions = [m.action for m in shown]
    chosen = laws[jnp.arange(len(shown)), jnp.asarray(actions)]
    low, high = np.asarray(chosen.quantile(np.array(BAND, np.float32)), float).T
    points = jnp.asarray(x)
    return Episode(
        name=agent.config.algo,
        env_id=agent.spec.env_id,
        gamma=agent.config.gamma,
        frames=[m.frame for m in shown],
        actions=actions,
        rewards=rewards,
        terminated=last.terminated,
        laws=Laws(
            x=x,
            density=np.asarray(laws.pdf(points), float),
            gradient=np.asarray(laws.gradient(points), float),
            mean=np.asarray(laws.mean(), float),
            cvar=np.asarray(laws.cvar(WORST), float),
            expected=np.asarray(chosen.mean(), float),
            low=low,
            high=high,
        ),
        note=f"agent of seed {agent.meta['seed']}, greedy",
        over=len(rewards) < LONGEST or last.terminated,
    )
