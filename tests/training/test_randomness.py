"""What each training step is given, and how far it goes: randomness, the rate, the average."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.training.early_stopping import train_until_best
from bellman_diffusion.training.loop import train
from bellman_diffusion.training.optimiser import Schedule, averaged, init_state, make_program
from bellman_diffusion.training.progress import NoProgress
from bellman_diffusion.training.run import RunFolder

CHUNK, STEPS, KEY = 8, 20, jax.random.key(3)


class Weight(eqx.Module):
    """One number."""

    value: jax.Array


START = Weight(jnp.zeros(()))


def loss(model, average, key, data, n_rows):
    """A constant gradient of 1, under which every step of Adam is as long as the rate."""
    figures = {"draw": jax.random.uniform(key), "before": model.value, "slow": average.value}
    return model.value, figures


def run(schedule, n_steps=STEPS):
    """Figures of every step, and the state at the end."""
    program = make_program(START, loss, schedule, CHUNK)
    history = []

    def chunk(state, step, n_steps):
        state, figures = program(state, step, n_steps, KEY, None, 0)
        history.append(figures)
        return state, figures

    state, _ = train(chunk, init_state(START, schedule), n_steps, CHUNK)
    joined = {k: np.concatenate([h[k] for h in history])[:n_steps] for k in history[0]}
    return joined, state


def test_every_training_step_has_randomness_of_its_own():
    """That of the seed's key and the step's number, whatever chunk the step is in."""
    draws = run(Schedule(0.1))[0]["draw"]
    assert len(np.unique(draws)) == STEPS
    wanted = [jax.random.uniform(jax.random.fold_in(KEY, step)) for step in range(STEPS)]
    np.testing.assert_array_equal(draws, wanted)


@pytest.mark.parametrize("warm_up", [0.05, 0.4])
def test_every_step_goes_as_far_as_the_schedule_says(warm_up):
    """A line up to the rate, then half a cosine down to zero."""
    figures, state = run(Schedule(0.1, warm_up=warm_up))
    done = np.arange(1, STEPS + 1) / STEPS
    falling = 0.5 * (1 + np.cos(np.pi * (done - warm_up) / (1 - warm_up)))
    rates = 0.1 * np.where(done < warm_up, done / warm_up, falling)
    places = -np.cumsum(rates)
    np.testing.assert_allclose(figures["before"][1:], places[:-1], rtol=1e-4)
    assert float(state.params.value) == pytest.approx(places[-1], rel=1e-4)


def test_a_constant_rate_stays():
    figures, _ = run(Schedule(0.1, constant=True))
    np.testing.assert_allclose(figures["before"], -0.1 * np.arange(STEPS), rtol=1e-4)


def test_the_average_is_that_of_the_weights_after_each_step_and_gives_the_targets():
    """Memory (1 + t)/(10 + t) at step t, at most the decay; the loss sees that of the step before."""
    figures, state = run(Schedule(0.1, constant=True, ema_decay=0.5))
    average = 0.0
    for step in range(STEPS):
        assert figures["slow"][step] == pytest.approx(average, rel=1e-4)
        memory = min(0.5, (1 + step) / (10 + step))
        average = memory * average + (1 - memory) * -0.1 * (step + 1)
    assert float(averaged(START, state).value) == pytest.approx(average, rel=1e-4)


def test_steps_beyond_the_last_change_nothing():
    """Twenty steps in chunks of eight: four of the last chunk are not taken."""
    _, state = run(Schedule(0.1, constant=True))
    assert float(state.params.value) == pytest.approx(-0.1 * STEPS, rel=1e-4)


def test_weights_are_judged_by_their_average_and_the_averages_best_is_kept():
    """Weights fall by 0.1 a step and their average lags behind: the loss is least where *it* is near.

    Validation by the weights themselves would keep an earlier step.
    """
    schedule = Schedule(0.1, constant=True, ema_decay=0.9)
    program = make_program(START, loss, schedule, 1)
    averages = run(schedule, 40)[0]["slow"]
    wanted = averages[21]
    state, _, step = train_until_best(
        lambda state, step, n: program(state, step, n, KEY, None, 0),
        init_state(START, schedule),
        40,
        1,
        lambda average: (average.value - wanted) ** 2,
    )
    # The average that step t sees is that of t steps.
    assert step == 21
    assert float(state.average.value) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("stop", [8, 16])
def test_a_resume_keeps_the_row_of_every_chunk(tmp_path, stop):
    """Those up to the saved step and with it; of the chunks after it, one row each."""

    class Stop(NoProgress):
        def update(self, step, n_steps, metrics):
            if step == stop:
                raise KeyboardInterrupt

    schedule = Schedule(0.1)
    program = make_program(START, loss, schedule, CHUNK)

    def go_on(progress=None):
        return train(
            lambda state, step, n: program(state, step, n, KEY, None, 0),
            init_state(START, schedule),
            STEPS,
            CHUNK,
            run=RunFolder(tmp_path, {}),
            progress=progress,
        )

    with pytest.raises(KeyboardInterrupt):
        go_on(Stop())
    _, figures = go_on()
    rows = RunFolder(tmp_path, {}).rows()
    assert [row["step"] for row in rows] == [8, 16, 20]
    # A row has the means over the steps of its chunk that were taken.
    draws = [float(jax.random.uniform(jax.random.fold_in(KEY, step))) for step in range(STEPS)]
    means = [np.mean(draws[:8]), np.mean(draws[8:16]), np.mean(draws[16:])]
    np.testing.assert_allclose([row["draw"] for row in rows], means, rtol=1e-5)
    assert figures["draw"] == pytest.approx(means[-1], rel=1e-5)
