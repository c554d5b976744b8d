"""An agent's episode, with the return distributions that it chose by."""

import jax.numpy as jnp
import numpy as np

from bellman_diffusion.agents.agent import Agent
from bellman_diffusion.agents.episodes import play
from bellman_diffusion.view.episode import ALPHA, BAND, LONGEST, N_POINTS, ActionReturns, Episode


def record_agent(agent: Agent, seed: int, steps: int) -> Episode:
    """A greedy episode: its first `steps` steps in full, the others' rewards."""
    shown, rewards, last = [], [], None
    for moment in play(agent, seed, LONGEST):
        if len(shown) < steps:
            shown.append(moment)
        rewards.append(moment.reward)
        # Frames are large: those that are not shown are dropped.
        last = moment
    assert last is not None
    predicted = agent.returns([m.observation for m in shown])
    x = predicted.grid_of_returns(N_POINTS)
    actions = [m.action for m in shown]
    taken = predicted[jnp.arange(len(shown)), jnp.asarray(actions)]
    low, high = np.asarray(taken.quantile(np.array(BAND, np.float32)), float).T
    points = jnp.asarray(x)
    return Episode(
        name=agent.config.algo,
        env_id=agent.spec.env_id,
        gamma=agent.config.gamma,
        frames=[m.frame for m in shown],
        actions=actions,
        rewards=rewards,
        terminated=last.terminated,
        returns=ActionReturns(
            x=x,
            density=np.asarray(predicted.pdf(points), float),
            gradient=np.asarray(predicted.gradient(points), float),
            mean=np.asarray(predicted.mean(), float),
            cvar=np.asarray(predicted.cvar(ALPHA), float),
            expected=np.asarray(taken.mean(), float),
            low=low,
            high=high,
        ),
        note=f"agent of seed {agent.seed}, greedy",
        over=last.terminated or len(rewards) in (*range(LONGEST), agent.spec.time_limit),
    )
