"""gymnax's simulators under this library's contract: two flags, no reset, Gymnasium's dynamics."""

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.agents.registry import default_config
from bellman_diffusion.environments import Environment, JaxEnvironment
from bellman_diffusion.environments.base import EnvState
from bellman_diffusion.environments.gymnax_env import GAMES

CHANNELS = {"Asterix": 4, "Breakout": 4, "Freeway": 7, "Seaquest": 10, "SpaceInvaders": 6}
FIELDS = {
    "CartPole-v1": ("x", "x_dot", "theta", "theta_dot"),
    "Acrobot-v1": ("joint_angle1", "joint_angle2", "velocity_1", "velocity_2"),
    "MountainCar-v0": ("position", "velocity"),
}
POLICIES = {
    "CartPole-v1": lambda o: int(o[2] + 0.3 * o[3] + 0.03 * o[0] > 0),
    "Acrobot-v1": lambda o: 2 if o[5] > 0 else 0,
    "MountainCar-v0": lambda o: 2 if o[1] >= 0 else 0,
}


def jitted(env_id: str) -> JaxEnvironment:
    environment = Environment(env_id, {}).jitted
    assert environment is not None
    return environment


@pytest.mark.parametrize("game", GAMES)
def test_minatar_games_run_jitted(game):
    environment = jitted(f"{game}-MinAtar")
    spec, shape = environment.spec, (10, 10, CHANNELS[game])
    assert spec.observation_space.shape == shape
    assert spec.time_limit is not None

    def follow(key):
        start = environment.reset(jax.random.fold_in(key, 0))

        def one(carry, key):
            state, over = carry
            act, move = jax.random.split(key)
            action = jax.random.randint(act, (), 0, spec.n_actions)
            state, now = environment.step(move, state, action)
            over = over | now.terminated | now.truncated
            return (state, over), now

        (state, over), steps = jax.lax.scan(
            one, (start[0], jnp.asarray(False)), jax.random.split(key, 50)
        )
        return start[1], state, over, steps

    first, state, _, steps = jax.jit(jax.vmap(follow))(jax.random.split(jax.random.key(0), 3))
    assert first.shape == (3, *shape)
    assert steps.observation.shape == (3, 50, *shape)
    assert steps.observation.dtype == first.dtype == jnp.float32
    # Boards of noughts and ones, never an empty one.
    assert set(np.unique(steps.observation)) == {0.0, 1.0}
    assert steps.observation.any(axis=(2, 3, 4)).all()
    assert steps.reward.shape == (3, 50)
    assert steps.reward.dtype == jnp.float32
    assert np.isfinite(steps.reward).all()
    for flag in (steps.terminated, steps.truncated):
        assert flag.shape == (3, 50)
        assert flag.dtype == bool
    assert not steps.truncated.any()
    # The state goes on from an end; who wants a reset makes it.
    assert (np.asarray(state.time) == 50).all()


@pytest.mark.parametrize("game", GAMES)
def test_both_ids_are_one_game(game):
    one, other = jitted(f"{game}-MinAtar"), jitted(f"MinAtar/{game}-v1")
    assert type(one.simulator) is type(other.simulator)
    assert one.simulator.name == f"{game}-MinAtar"
    settings = default_config(f"MinAtar/{game}-v1").to_json()
    assert settings | {"env_id": ""} == default_config(f"{game}-MinAtar").to_json() | {"env_id": ""}
    assert settings["hidden"] == (128,)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1", "MountainCar-v0"])
def test_a_time_limit_is_truncation_and_no_reset(env_id):
    """At the limit the flag is truncation, and the observation follows from the one before."""
    environment = jitted(env_id)
    limit = gym.make(env_id).spec.max_episode_steps
    assert environment.spec.time_limit == limit
    state, _ = environment.reset(jax.random.key(1))
    # Well away from a start, and from an end.
    inner = state.inner.replace(**dict.fromkeys(FIELDS[env_id], jnp.asarray(0.1)))
    if env_id == "MountainCar-v0":
        inner = inner.replace(velocity=jnp.asarray(0.0))
    step = eqx.filter_jit(environment.step)
    for time, cut in ((limit - 2, False), (limit - 1, True)):
        before = EnvState(inner.replace(time=jnp.asarray(time)), jnp.asarray(time))
        _, now = step(jax.random.key(2), before, jnp.asarray(1))
        _, wanted, _, _ = environment.advance(jax.random.key(2), inner, jnp.asarray(1))
        np.testing.assert_allclose(now.observation, wanted, atol=1e-6)
        assert not now.terminated
        assert bool(now.truncated) == cut


@pytest.mark.parametrize("policy", ["controller", "constant"])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1", "MountainCar-v0"])
def test_every_step_of_an_episode_is_gymnasiums(env_id, policy):
    """From Gymnasium's state of each step: the same observation, reward and flags to the end."""
    environment, env = jitted(env_id), gym.make(env_id)
    step = eqx.filter_jit(environment.step)
    state, _ = environment.reset(jax.random.key(0))
    observation, _ = env.reset(seed=4)
    act = POLICIES[env_id] if policy == "controller" else lambda o: 1
    t, over = 0, False
    while not over:
        values = map(jnp.float32, env.unwrapped.state)
        inner = state.inner.replace(**dict(zip(FIELDS[env_id], values, strict=True)))
        action = act(observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        state, now = step(jax.random.key(t), EnvState(inner, state.time), jnp.asarray(action))
        np.testing.assert_allclose(now.observation, observation, rtol=1e-5, atol=2e-5)
        assert float(now.reward) == reward
        assert (bool(now.terminated), bool(now.truncated)) == (terminated, truncated)
        t, over = t + 1, terminated or truncated
    # Pushing to one side, doing nothing: a fall, and two time limits; with control the other way.
    assert terminated == ((policy == "controller") != (env_id == "CartPole-v1"))
