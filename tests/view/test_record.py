"""What a page is made from: packing, what followed, distributions one step ahead, whole runs."""

import base64
import json
import sys
import threading
from http.client import HTTPConnection
from unittest import mock

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellman_diffusion import BellmanDiffusion, make_recipe
from bellman_diffusion.cli import main
from bellman_diffusion.environments.make import make_env
from bellman_diffusion.environments.transition_tables import finite_mdp
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.images.model import ImageModel, ImageSettings
from bellman_diffusion.planning.plan import PlanSettings, plan
from bellman_diffusion.planning.planner import Planner
from bellman_diffusion.planning.policies import tabular_policy
from bellman_diffusion.tables import TableModel
from bellman_diffusion.view.episode import action_names, episode_to_json, followed, sure_until
from bellman_diffusion.view.lookahead import look_ahead, simulated_outcomes, table_outcomes
from bellman_diffusion.view.packing import pack, pack_frames, pack_points, rounded
from bellman_diffusion.view.page import render_view
from bellman_diffusion.view.planners import grid_cvar
from bellman_diffusion.view.record import record_run
from bellman_diffusion.view.server import make_server
from tests.view.records import episode_record, made_episode


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A planner's folder."""
    folder = tmp_path_factory.mktemp("lake")
    plan(PlanSettings("FrozenLake-v1", n_basis=21)).save(folder / "planner.bellman")
    return folder


def unpacked(packed):
    values = np.frombuffer(base64.b64decode(packed["data"]), "<i2").reshape(packed["shape"])
    return values * np.array(packed["scale"]) + np.array(packed.get("offset", 0.0))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_packing_keeps_numbers_to_a_hair_of_the_largest(values):
    array = np.array(values)
    error = np.abs(unpacked(pack(array)) - array)
    assert np.all(error <= np.abs(array).max() / 2**15 + 1e-300)


def test_points_are_packed_by_column():
    """A column of small numbers stays fine beside one of large numbers."""
    rng = np.random.default_rng(0)
    points = np.stack([rng.uniform(0, 1, 100), rng.uniform(1e6, 1.001e6, 100)], axis=1)
    error = np.abs(unpacked(pack_points(points)) - points).max(axis=0)
    assert np.all(error <= np.ptp(points, axis=0) / 60_000)
    constant = unpacked(pack_points(np.full((3, 2), 7.0)))
    np.testing.assert_array_equal(constant, 7.0)


def test_equal_frames_are_kept_once():
    black, white = np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), 255, np.uint8)
    pictures, which = pack_frames([black, white, black])
    assert len(pictures) == 2
    assert which == [0, 1, 0]
    assert all(p.startswith("data:image/webp;base64,") for p in pictures)


def test_rounding_keeps_figures_not_places():
    assert rounded([123456.789, 0.000123456, 0.0]) == [123460.0, 0.00012346, 0.0]
    assert rounded([np.nan, np.inf, 1.0]) == [None, None, 1.0]


def test_what_followed_is_the_discounted_sum():
    assert followed([1.0, 2.0, 4.0], 0.5).tolist() == [3.0, 4.0, 4.0]


def test_an_episode_that_was_cut_off_is_sure_only_where_little_is_missing():
    assert sure_until(100, 0.9, terminated=True) == 100
    until = sure_until(100, 0.9, terminated=False)
    assert 0.9 ** (100 - until) <= 0.05 < 0.9 ** (100 - until - 1)
    assert sure_until(100, 1.0, terminated=False) == 0
    assert sure_until(3, 0.99, terminated=False) == 0


def test_actions_have_names_where_they_are_known():
    assert action_names("FrozenLake-v1", 4) == ["left", "down", "right", "up"]
    assert action_names("FrozenLake-v1", 3) == ["action 0", "action 1", "action 2"]


def test_the_worst_share_of_a_normal_law():
    """CVaR₁₀ of N(0, 1) is −φ(z)/0.1 at its 10 % quantile: −1.755."""
    x = np.linspace(-6, 6, 2001)
    found = grid_cvar(x, np.exp(-0.5 * x**2)[None], 0.1)
    assert found[0] == pytest.approx(-1.755, abs=0.005)


def test_one_step_ahead_the_actions_mix_to_the_state(lake):
    """Bellman's equation: the policy's mixture of its actions is the state's distribution."""
    planner = Planner.load(lake / "planner.bellman")
    env = make_env("FrozenLake-v1")
    mdp = finite_mdp(env)
    policy = tabular_policy("optimal", mdp, env, 0.99, 0.0)
    x = np.linspace(-0.2, 1.2, 201).astype(np.float32)
    states = [0, 4, 14]
    outcomes = [table_outcomes(mdp, planner.space, s) for s in states]
    distributions = look_ahead(planner, outcomes, x, 0.05)
    known = planner.distribution(states)
    density = np.asarray(known.pdf(jnp.asarray(x), 0.05))
    for k, state in enumerate(states):
        mixture = policy[state] @ distributions[k].density
        assert np.abs(mixture - density[k]).max() < 0.03 * density[k].max()
        mean = float(policy[state] @ distributions[k].mean)
        assert mean == pytest.approx(float(known.mean()[k]), abs=1e-4)
        slope = np.gradient(distributions[k].density[0], x)
        assert np.abs(slope - distributions[k].gradient[0]).max() < 0.1 * np.abs(slope).max()


def test_copies_of_an_environment_say_what_actions_lead_to():
    env = make_env("CartPole-v1")
    env.reset(seed=0)
    left, right = simulated_outcomes(env)
    assert sum(o.probability for o in left) == pytest.approx(1)
    assert left[0].observation[1] < 0 < right[0].observation[1]
    # The environment itself has not moved.
    observation, *_ = env.step(0)
    np.testing.assert_array_equal(observation, left[0].observation)
    assert simulated_outcomes(make_env("Pendulum-v1")) is None


def test_a_planners_run(lake):
    (record,) = record_run(lake, seed=3, steps=9)
    assert record["actions"] == ["left", "down", "right", "up"]
    assert record["n_steps"] == len(record["frame"]) <= 9
    assert unpacked(record["density"]).shape == (record["n_steps"], 4, 321)
    assert np.all(np.array(record["low"]) <= np.array(record["expected"]) + 1e-6)
    json.dumps(record)


def test_a_file_is_what_it_holds_whatever_its_name(lake, tmp_path):
    file = tmp_path / "mine.bellman"
    file.write_bytes((lake / "planner.bellman").read_bytes())
    (record,) = record_run(file, seed=3, steps=9)
    assert record["env_id"] == "FrozenLake-v1"
    other = tmp_path / "model.bellman"
    rows = np.random.default_rng(0).normal(size=(50, 2))
    BellmanDiffusion(make_recipe(max_iter=2, width=8, group_size=16)).fit(rows).save(other)
    with pytest.raises(InvalidInputError, match="but a generative model"):
        record_run(other)


def test_an_action_far_from_the_policys_returns_is_drawn(tmp_path):
    """Off the cliff costs 100, where the optimal policy loses 13."""
    plan(PlanSettings("CliffWalking-v1", n_basis=21)).save(tmp_path / "planner.bellman")
    (record,) = record_run(tmp_path, steps=3)
    # Up, right, and now above the cliff.
    step = 2
    assert record["mean"][step][2] < -100
    assert record["cvar"][step][2] == pytest.approx(record["mean"][step][2], abs=10)
    x = np.linspace(*record["x"], 321)
    density = unpacked(record["density"])[step]
    assert np.trapezoid(density, x, axis=1) == pytest.approx(1, abs=0.05)
    json.dumps(record, allow_nan=False)


def test_a_policy_that_was_a_function_is_not_taken_for_another(tmp_path):
    settings = PlanSettings(
        "FrozenLake-v1", n_basis=11, samples=200, max_iter=10, support=(0.0, 1.0)
    )
    planner = plan(settings, policy=lambda observation: 0)
    planner.save(tmp_path / "planner.bellman")
    with pytest.raises(InvalidInputError, match="given as a Python function"):
        record_run(tmp_path)


def test_a_table_models_run(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    tiny = {"max_iter": 20, "width": 16, "group_size": 16, "n_steps": 30}
    TableModel(transform="plain", **tiny).fit(frame).save(tmp_path / "model.bellman")
    (record,) = record_run(tmp_path, data=frame)
    n = record["n_steps"]
    assert unpacked(record["paths"]).shape == (n, 400, 2)
    assert len(record["levels"]) == n
    assert record["levels"][0] > record["levels"][-1]
    assert unpacked(record["fields"]["gradient"]).shape == (n, 33, 33, 2)
    (swapped,) = record_run(tmp_path, data=frame, columns=("b", "a"))
    fields, other = (unpacked(r["fields"]["scalar"])[-1] for r in (record, swapped))
    np.testing.assert_allclose(other, fields.T, atol=0.02)
    wrongs = [(("a", "c"), "choose two from"), (("a", "b"), "lacks"), (("a", "a"), "different")]
    for wrong, reason in wrongs:
        with pytest.raises(InvalidInputError, match=reason):
            record_run(tmp_path, data=frame[["a"]], columns=wrong)


def test_an_image_models_run(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (60, 3, 8, 8)).astype(np.uint8)
    settings = ImageSettings(latent_dim=2, vae_steps=5, latent_steps=5)
    ImageModel(settings).fit(images, rng.integers(0, 2, 60)).save(tmp_path)
    (record,) = record_run(tmp_path, seed=1)
    assert record["kind"] == "images"
    assert record["n_steps"] == len(record["frame"]) == len(record["levels"])
    assert len(record["frames"]) > 2
    assert all(p.startswith("data:image/webp;base64,") for p in record["frames"])
    json.dumps(record, allow_nan=False)
    assert record_run(tmp_path, seed=1) == [record]


def test_a_folder_of_something_else(tmp_path):
    with pytest.raises(InvalidInputError, match="holds no agent, planner, table or image model"):
        record_run(tmp_path)
    with pytest.raises(InvalidInputError, match="holds no agent"):
        record_run(tmp_path / "nothing")


def test_a_training_that_has_not_ended(tmp_path):
    (tmp_path / "checkpoint.bellman").write_bytes(b"")
    with pytest.raises(InvalidInputError, match="run the same command again"):
        record_run(tmp_path)


def test_the_server_answers_to_its_own_names_alone():
    """Other names may be made to lead to loopback: their pages must not read this one."""
    server = make_server("a page")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    found = {}
    own = [f"{name}:{server.server_port}" for name in ("127.0.0.1", "localhost")]
    for host in (*own, "evil.example"):
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.request("GET", "/", headers={"Host": host})
        found[host] = connection.getresponse().status
        connection.close()
    server.shutdown()
    thread.join()
    server.server_close()
    assert list(found.values()) == [200, 200, 403]


def test_points_that_are_not_finite_do_not_move_others():
    places = np.array([[0.0, 0.0], [1.0, 2.0], [50.0, np.inf]])
    packed = unpacked(pack_points(places))
    np.testing.assert_allclose(packed[:2], places[:2], atol=1e-4)
    assert np.abs(packed).max() <= 2.0


def test_a_table_for_a_run_without_one_is_refused(lake, tmp_path, capsys):
    page, table = tmp_path / "view.html", tmp_path / "t.csv"
    table.write_text("a,b\n1,2\n3,4\n")
    arguments = ["bellman", "view", str(lake), "--data", str(table), "--html", str(page)]
    with mock.patch.object(sys, "argv", arguments), pytest.raises(SystemExit) as stop:
        main.run()
    assert stop.value.code == 2
    assert "are for the models of bellman fit" in capsys.readouterr().err.replace("\n", " ")
    assert not page.exists()


def test_text_in_a_run_cannot_leave_its_place():
    page = render_view([episode_record("</script><b>")], "bellman view <x>")
    assert "</script><b>" not in page
    assert "bellman view &lt;x&gt;" in page


def test_what_is_beyond_the_steps_shown_counts_as_followed():
    record = episode_to_json(made_episode(n_steps=4))
    assert record["length"] == 7
    assert record["followed"][3] == pytest.approx(1 + 0.9 + 0.81 + 0.729)


def test_a_policy_over_state_and_stock_is_played_with_what_it_still_needs(tmp_path):
    """WindyCliff: the stock takes up every reward, and the returns are those of pairs."""
    planner = plan(
        PlanSettings(
            "bellman/WindyCliff-v0", objective="cvar:0.1", gamma=0.95, accuracy=0.01, episodes=0
        )
    )
    planner.save(tmp_path / "planner.bellman")
    with pytest.raises(InvalidInputError, match="must stand beside the planner"):
        record_run(tmp_path)
    planner.stock_policy.save(tmp_path / "policy.npz")
    (part,) = record_run(tmp_path, steps=20)
    policy = planner.stock_policy
    needed = part["needed"]
    assert len(needed) == part["n_steps"]
    assert needed[0] == pytest.approx(policy.level, abs=1e-4)
    for now, later, reward in zip(needed, needed[1:], part["reward"], strict=False):
        assert later == pytest.approx((now - reward) / 0.95, abs=policy.width)
    assert part["only_policy"]
    assert "cvar:0.1" in part["note"]
