"""The loop: resume, divergence, logs, checkpoints."""

import json
import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from bellman_diffusion.errors import CheckpointError, InvalidInputError, TrainingDivergedError
from bellman_diffusion.training import (
    NoProgress,
    RunFolder,
    init_state,
    make_program,
    read_checkpoint,
    train,
    write_checkpoint,
)
from bellman_diffusion.training.checkpoint import Header
from bellman_diffusion.training.interrupt import stop_between_chunks
from bellman_diffusion.training.optimiser import Schedule

CHUNK = 10
SCHEDULE = Schedule(1e-2)
MODEL = eqx.nn.MLP(2, 1, 8, 1, key=jax.random.key(0))
DATA = jnp.asarray(np.random.default_rng(0).normal(size=(64, 2)), jnp.float32)
CONFIG = {"width": 8}


def squared_error(model, _average, key, data, n_rows):
    x = data[jax.random.randint(key, (16,), 0, n_rows)]
    error = jax.vmap(model)(x)[:, 0] - x[:, 0] * x[:, 1]
    return jnp.mean(error**2), {"largest": jnp.max(jnp.abs(error))}


PROGRAM = make_program(MODEL, squared_error, SCHEDULE, CHUNK)


def program(state, step, n_steps):
    return PROGRAM(state, step, n_steps, jax.random.key(1), DATA, len(DATA))


def leaves(state):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state)]


def rows_of(folder):
    return [json.loads(row) for row in (folder / "metrics.jsonl").read_text().splitlines()]


class StopAfter(NoProgress):
    """A user who presses Ctrl-C."""

    def __init__(self, step):
        self.step = step

    def update(self, step, n_steps, metrics):
        if step >= self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("stop", [10, 30])
def test_a_stopped_and_resumed_run_ends_bit_for_bit_the_same(tmp_path, stop):
    whole, _ = train(program, init_state(MODEL, SCHEDULE), 45, CHUNK)
    with pytest.raises(KeyboardInterrupt):
        train(
            program,
            init_state(MODEL, SCHEDULE),
            45,
            CHUNK,
            run=RunFolder(tmp_path, CONFIG),
            progress=StopAfter(stop),
        )
    resumed, _ = train(
        program, init_state(MODEL, SCHEDULE), 45, CHUNK, run=RunFolder(tmp_path, CONFIG)
    )
    for a, b in zip(leaves(whole), leaves(resumed), strict=True):
        np.testing.assert_array_equal(a, b)
    steps = [row["step"] for row in rows_of(tmp_path)]
    assert steps == sorted(set(steps))
    assert steps[-1] == 45


def test_the_size_of_a_chunk_changes_nothing():
    other = make_program(MODEL, squared_error, SCHEDULE, 7)
    a, _ = train(program, init_state(MODEL, SCHEDULE), 25, CHUNK)
    b, _ = train(
        lambda *args: other(*args, jax.random.key(1), DATA, len(DATA)),
        init_state(MODEL, SCHEDULE),
        25,
        7,
    )
    for x, y in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_the_loss_falls():
    start = init_state(MODEL, SCHEDULE)
    _, first = train(program, start, 10, CHUNK)
    _, last = train(program, start, 500, CHUNK)
    assert last["loss"] < 0.3 * first["loss"]


def test_metrics_go_to_jsonl_and_tensorboard(tmp_path):
    train(program, init_state(MODEL, SCHEDULE), 20, CHUNK, run=RunFolder(tmp_path, CONFIG))
    rows = rows_of(tmp_path)
    assert [row["step"] for row in rows] == [10, 20]
    assert rows[0].keys() == {"step", "loss", "largest"}
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [e.step for e in events.Scalars("loss")] == [10, 20]
    np.testing.assert_allclose(events.Scalars("loss")[1].value, rows[1]["loss"], rtol=1e-5)


def test_divergence_stops_the_run_and_keeps_the_last_good_state(tmp_path):
    def explode(state, step, n_steps):
        state, figures = program(state, step, n_steps)
        bad = step + jnp.arange(CHUNK) >= 23
        return state, figures | {"loss": jnp.where(bad, jnp.nan, figures["loss"])}

    run = RunFolder(tmp_path, CONFIG)
    with pytest.raises(TrainingDivergedError, match=r"step 24.*checkpoint.bellman.*Halve it"):
        train(explode, init_state(MODEL, SCHEDULE), 100, CHUNK, run=run, advice="Halve it.")
    restored, step = RunFolder(tmp_path, CONFIG).restore(init_state(MODEL, SCHEDULE))
    expected = init_state(MODEL, SCHEDULE)
    for first in (0, 10):
        expected, _ = program(expected, first, 100)
    assert step == 20
    for a, b in zip(leaves(restored), leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)


def test_another_configuration_does_not_overwrite_a_run(tmp_path):
    RunFolder(tmp_path, {"width": 8, "seed": 1}).make()
    with pytest.raises(InvalidInputError, match="seed: 1 → 2"):
        RunFolder(tmp_path, {"width": 8, "seed": 2})


def test_schedule_rises_then_falls_to_zero():
    schedule = Schedule(1.0, warm_up=0.1)
    rates = [float(schedule.rate(jnp.asarray(i), jnp.asarray(100))) for i in range(100)]
    assert np.argmax(rates) in (9, 10)
    assert rates[-1] < 1e-3
    assert all(np.diff(rates[12:]) <= 0)


class Note(Header, frozen=True, kw_only=True):
    """What a test's file says of itself."""

    note: str = ""
    n: int = 0


def test_checkpoint_round_trip(tmp_path):
    tree = {"a": jnp.arange(3.0), "b": jnp.ones((2, 2))}
    write_checkpoint(tmp_path / "x", "thing", tree, Note(note="ü"))
    got, header = read_checkpoint(tmp_path / "x", "thing", Note, lambda _: tree)
    assert header == Note(note="ü")
    np.testing.assert_array_equal(got["a"], tree["a"])
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_checkpoint_of_another_kind_or_version_is_refused(tmp_path):
    path = tmp_path / "x"
    write_checkpoint(path, "thing", jnp.ones(2), Note())
    with pytest.raises(CheckpointError, match="holds a thing, not a model"):
        read_checkpoint(path, "model", Note, lambda _: jnp.ones(2))
    path.write_bytes(path.read_bytes().replace(b'"version": 2', b'"version": 9'))
    with pytest.raises(CheckpointError, match="format version 9"):
        read_checkpoint(path, "thing", Note, lambda _: jnp.ones(2))
    with pytest.raises(CheckpointError, match="cannot read"):
        read_checkpoint(tmp_path / "absent", "thing", Note, lambda _: jnp.ones(2))


class Counted(Header, frozen=True, kw_only=True):
    """Another header."""

    count: int


def test_a_header_of_the_wrong_type_is_refused_with_the_field_that_is_wrong(tmp_path):
    write_checkpoint(tmp_path / "x", "thing", jnp.ones(2), Note(note="many"))
    with pytest.raises(CheckpointError, match="missing required field `count`"):
        read_checkpoint(tmp_path / "x", "thing", Counted, lambda _: jnp.ones(2))


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_never_loads(tmp_path, place, bit):
    path = tmp_path / "x"
    if not (tmp_path / "good").exists():
        write_checkpoint(tmp_path / "good", "thing", jnp.arange(64.0), Note(n=3, note="abc"))
    content = bytearray((tmp_path / "good").read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    path.write_bytes(bytes(content))
    with pytest.raises(CheckpointError):
        read_checkpoint(path, "thing", Note, lambda _: jnp.arange(64.0))


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write_checkpoint(path, "thing", jnp.ones(2), Note())
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Exception, match="No space left"):
        write_checkpoint(path, "thing", jnp.zeros(2), Note())
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.fixture
def python_handles_ctrl_c():
    """As in a shell: a process that was started in the background may ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_the_first_ctrl_c_waits_for_the_end_of_a_chunk_and_the_second_does_not(tmp_path, capfd):
    def pressed(times):
        def chunk(state, step, n_steps):
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            return program(state, step, n_steps)

        return chunk

    for times, saved in ((1, CHUNK), (2, 0)):
        run = RunFolder(tmp_path / str(times), CONFIG)
        with pytest.raises(KeyboardInterrupt):
            train(pressed(times), init_state(MODEL, SCHEDULE), 45, CHUNK, run=run)
        assert run.restore(init_state(MODEL, SCHEDULE))[1] == saved
        assert "Ctrl-C again stops at once" in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_users_own_is_left_alone():
    own = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with stop_between_chunks() as stop:
            signal.raise_signal(signal.SIGINT)
            stop.check()
    finally:
        signal.signal(signal.SIGINT, own)
