"""gymnax's environments: the classic ones of Gymnasium, and the MinAtar games."""

from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from bellman_diffusion.environments.base import EnvSpec, JaxEnvironment

# Gymnasium's ids that gymnax has under the same rules, and MinAtar's games.
CLASSIC = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0")
GAMES = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
_MINATAR = {f"MinAtar/{name}-v1": f"{name}-MinAtar" for name in GAMES}


def gymnax_name(env_id: str) -> str | None:
    """gymnax's name for an id, or None where it has no such environment."""
    if env_id in CLASSIC:
        return env_id
    return _MINATAR.get(env_id, env_id if env_id in _MINATAR.values() else None)


class GymnaxEnvironment(JaxEnvironment):
    """gymnax's `step_env` knows ends alone; its time limit is the spec's, which `step` minds."""

    spec: EnvSpec = eqx.field(static=True)
    simulator: Any = eqx.field(static=True)
    params: Any

    @classmethod
    def create(cls, env_id: str) -> "GymnaxEnvironment":
        """By the id of Gymnasium or of gymnax."""
        import gymnax  # noqa: PLC0415 (slow to import)

        name = gymnax_name(env_id)
        assert name is not None
        made: Any = gymnax.make(name)
        simulator, params = made
        if name in CLASSIC:
            env = gym.make(name)
            space, threshold = env.observation_space, getattr(env.spec, "reward_threshold", None)
        else:
            shape = simulator.observation_space(params).shape
            space, threshold = gym.spaces.Box(0, 1, shape, np.uint8), None
        spec = EnvSpec(
            env_id,
            space,
            simulator.num_actions,
            time_limit=int(params.max_steps_in_episode),
            solved_at=threshold,
        )
        return cls(spec, simulator, params)

    def initial(self, key: Key[Array, ""]) -> tuple[Any, Float[Array, "*shape"]]:
        """gymnax's reset."""
        observation, inner = self.simulator.reset_env(key, self.params)
        # Python numbers in the state would change their type at the first step.
        return _as_arrays(inner), observation

    def advance(
        self, key: Key[Array, ""], inner: Any, action: Int[Array, ""]
    ) -> tuple[Any, Float[Array, "*shape"], Float[Array, ""], Bool[Array, ""]]:
        """gymnax's step without its auto-reset."""
        observation, inner, reward, terminated, _ = self.simulator.step_env(
            key, inner, action, self.params
        )
        return _as_arrays(inner), observation, reward, jnp.asarray(terminated, bool)


def _as_arrays(state: Any) -> Any:
    return jax.tree.map(jnp.asarray, state)
