"""Environments: the jitted ones are Gymnasium's, ends and time limits are told apart."""

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.environments import Environment, EnvSpec, HostEnvironments
from bellman_diffusion.environments.base import EnvState
from bellman_diffusion.environments.transition_tables import finite_mdp
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.observations import ObservationEncoder


def controller(observation) -> int:
    return int(observation[2] + 0.3 * observation[3] + 0.03 * observation[0] > 0)


@pytest.mark.parametrize("policy", ["controller", "push"])
def test_cartpole_is_gymnasiums_step_by_step(policy):
    jitted = Environment("CartPole-v1", {}).jitted
    assert jitted is not None
    env = gym.make("CartPole-v1")
    for seed in range(2):
        observation, _ = env.reset(seed=seed)
        state, _ = jitted.reset(jax.random.key(seed))
        step = eqx.filter_jit(jitted.step)
        for t in range(500):
            if t % 50 == 0:
                # The pole is unstable: single and double precision drift apart over hundreds of steps.
                x, x_dot, theta, theta_dot = jnp.asarray(observation)
                inner = state.inner.replace(x=x, x_dot=x_dot, theta=theta, theta_dot=theta_dot)
                state = EnvState(inner, state.time)
            action = controller(observation) if policy == "controller" else 1
            observation, reward, terminated, truncated, _ = env.step(action)
            state, now = step(jax.random.key(t), state, jnp.asarray(action))
            np.testing.assert_allclose(now.observation, observation, atol=2e-3)
            assert float(now.reward) == reward
            assert bool(now.terminated) == terminated
            assert bool(now.truncated) == truncated
            if terminated or truncated:
                break
        assert truncated == (policy == "controller")
        assert t == 499 if policy == "controller" else t < 20


def test_acrobot_is_gymnasiums_step_by_step():
    jitted = Environment("Acrobot-v1", {}).jitted
    assert jitted is not None
    env = gym.make("Acrobot-v1")
    observation, _ = env.reset(seed=0)
    state, _ = jitted.reset(jax.random.key(0))
    a, b, va, vb = (jnp.asarray(v, jnp.float32) for v in env.unwrapped.state)
    inner = state.inner.replace(joint_angle1=a, joint_angle2=b, velocity_1=va, velocity_2=vb)
    state = EnvState(inner, state.time)
    step = eqx.filter_jit(jitted.step)
    for t in range(60):
        action = 2 if observation[4] > 0 else 0
        observation, reward, terminated, truncated, _ = env.step(action)
        state, now = step(jax.random.key(t), state, jnp.asarray(action))
        np.testing.assert_allclose(now.observation, observation, atol=2e-2)
        assert float(now.reward) == reward
        assert bool(now.terminated) == terminated
        assert bool(now.truncated) == truncated


def test_a_table_is_drawn_from_with_its_own_probabilities():
    env = gym.make("FrozenLake-v1")
    jitted = Environment("FrozenLake-v1", {}).jitted
    assert jitted is not None
    mdp = finite_mdp(env)
    n = 20_000
    keys = jax.random.split(jax.random.key(0), n)
    state = EnvState(jnp.asarray(14), jnp.asarray(0))
    _, steps = jax.vmap(lambda k: jitted.step(k, state, jnp.asarray(2)))(keys)
    here = (mdp.state == 14) & (mdp.action == 2)
    for following in range(16):
        wanted = mdp.probability[here & (mdp.next_state == following)].sum()
        found = np.mean(np.asarray(steps.observation)[:, 0] == following)
        # Four standard errors of a share of 20,000.
        assert found == pytest.approx(wanted, abs=4 * np.sqrt(0.25 / n))
    assert float(steps.reward.max()) == 1
    np.testing.assert_array_equal(
        np.asarray(steps.terminated), np.isin(np.asarray(steps.observation)[:, 0], [15, 12])
    )
    assert jitted.spec.time_limit == 100


def test_host_environments_go_where_a_checkpoint_was():
    spec = Environment("CartPole-v1", {"max_episode_steps": 30}).spec
    assert isinstance(spec, EnvSpec)
    assert spec.time_limit == 30
    reader = ObservationEncoder.for_space(spec.observation_space, spec.env_id)
    rng = np.random.default_rng(0)
    envs = HostEnvironments(spec, reader, (3, 8), 2)
    for _ in range(57):
        envs.step(rng.integers(0, 2, (2, 2)))
    twin = HostEnvironments(spec, reader, (3, 8), 2)
    twin.restore(envs.memory())
    np.testing.assert_array_equal(twin.observation, envs.observation)
    for _ in range(40):
        actions = rng.integers(0, 2, (2, 2))
        for one, other in zip(envs.step(actions), twin.step(actions), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_time_limit_is_no_end_and_the_last_observation_is_kept():
    spec = Environment("CartPole-v1", {"max_episode_steps": 5}).spec
    assert isinstance(spec, EnvSpec)
    reader = ObservationEncoder.for_space(spec.observation_space, spec.env_id)
    envs = HostEnvironments(spec, reader, (0,), 1)
    for t in range(5):
        before = envs.observation.copy()
        seen = envs.step(np.array([[t % 2]]))
    assert seen.ended[0, 0] == 1
    assert seen.terminated[0, 0] == 0
    # What was reached follows from what was before, not from a reset.
    assert np.abs(seen.next_observation - before).max() < 0.5
    assert np.abs(envs.observation).max() <= 0.05


def test_continuous_actions_are_refused_with_a_remedy():
    with pytest.raises(InvalidInputError, match="ActionWrapper"):
        Environment("Pendulum-v1", {})


def test_large_images_are_refused_with_a_remedy():
    space = gym.spaces.Box(0, 255, (210, 160, 3), np.uint8)
    with pytest.raises(InvalidInputError, match="ResizeObservation"):
        ObservationEncoder.for_space(space, "Pong")
