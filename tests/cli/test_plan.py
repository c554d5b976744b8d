"""`bellman plan`: figures, saved planners, refusals."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from typer.testing import CliRunner

from bellman_diffusion.cli.main import app
from bellman_diffusion.errors import BellmanError
from bellman_diffusion.planning import Planner

runner = CliRunner()


def run(*arguments):
    return runner.invoke(app, ["plan", *arguments], catch_exceptions=True)


RISKS = ("mean", "std", "quantile_05", "quantile_95", "cvar_10", "cvar_01")


def test_frozen_lake_is_certified_and_can_be_loaded_again(tmp_path):
    out = str(tmp_path / "run")
    arguments = "FrozenLake-v1 --policy optimal --gamma 0.99 --exact --accuracy 0.002"
    result = run(*arguments.split(), "--json", "--out", out)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout.splitlines()[-1])
    assert figures["accuracy_reached"] <= 0.002
    assert figures["seconds"] > 0
    assert figures["peak_memory_gb"] > 0
    start = figures["starts"][0]
    assert start["mean"] == pytest.approx(0.542, abs=1e-3)
    assert start["w1_bound"] <= 0.002
    for name in RISKS:
        low, high = start[f"{name}_bounds"]
        assert 0 <= low <= start[name] <= high <= 1
    assert start["cvar_10"] == pytest.approx(0, abs=1e-8)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "certified" in page
    assert "20,000 episodes" in page
    assert "disagrees" not in page
    again = run("--load", f"{out}/planner.bellman", "--json")
    assert json.loads(again.stdout.splitlines()[-1])["starts"] == figures["starts"]


def test_the_time_limit_ends_the_episode_where_that_is_asked_for(tmp_path):
    arguments = "FrozenLake-v1 --time-limit end --accuracy 0.01 --json"
    result = run(*arguments.split(), "--out", str(tmp_path / "run"))
    assert json.loads(result.stdout.splitlines()[-1])["starts"][0]["mean"] == pytest.approx(
        0.520, abs=5e-4
    )


def test_a_learned_plan_sees_the_time_limit_too(tmp_path):
    """A network reads it: FrozenLake's 100 steps have the mean 0.520, the endless game 0.542."""
    arguments = (
        "FrozenLake-v1 --time-limit end --samples 30000 --max-iter 800 --mode cells --n-basis 33"
    )
    out = tmp_path / "run"
    result = run(*arguments.split(), "--json", "--out", str(out))
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout.splitlines()[-1])
    assert figures["starts"][0]["mean"] == pytest.approx(0.520, abs=0.05)
    planner = Planner.load(out / "planner.bellman")
    # With one step left only the goal's neighbour can still win.
    late = planner.distribution([0, 14], elapsed=[99, 99]).mean()
    assert float(late[0]) < 0.1
    assert float(late[0]) < float(late[1])


def test_an_objective_writes_its_policy(tmp_path):
    out = tmp_path / "run"
    arguments = "bellman/WindyCliff-v0 --objective cvar:0.1 --accuracy 0.01 --json"
    result = run(*arguments.split(), "--out", str(out))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout.splitlines()[-1])["starts"][0]["cvar_10"] > -10
    assert (out / "policy.npz").exists()


def test_models_come_from_archives_and_from_prism_files(tmp_path, monkeypatch):
    """A walk to the end, by matrices and in PRISM's explicit format: the same returns."""
    monkeypatch.chdir(tmp_path)
    walk = scipy.sparse.csr_array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])
    parts = {f"P0_{name}": getattr(walk, name) for name in ("data", "indices", "indptr")}
    np.savez("walk.npz", **parts, reward=np.array([1.0, 2.0, 0.0]), start=np.eye(3)[0])
    Path("walk.tra").write_text("3 6\n0 0 0.5\n0 1 0.5\n1 0 0.2\n1 1 0.3\n1 2 0.5\n2 2 1\n")
    Path("walk.srew").write_text("3 2\n0 1\n1 2\n")
    Path("walk.lab").write_text('0="init" 1="done"\n0: 0\n2: 1\n')
    found = []
    for name in ("walk.npz", "walk.tra"):
        result = run(name, "--policy", "random", "--gamma", "1", "--json", "--out", f"out-{name}")
        assert result.exit_code == 0, (result.output, result.exception)
        found.append(json.loads(result.stdout.splitlines()[-1])["starts"][0])
    assert found[0] == found[1]
    # m₀ = 1 + m₀/2 + m₁/2 and m₁ = 2 + m₀/5 + 3m₁/10.
    assert found[0]["mean"] == pytest.approx(34 / 5, abs=1e-8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"P0_data": np.array([0.5, 0.4, 1.0])}, "state 0, action 0 add up to 0.9"),
        ({"reward": np.array([1.0, np.nan])}, "state 1, action 0, to state 1 has a reward"),
        ({"reward": np.ones(3)}, "rewards have the shape"),
    ],
)
def test_models_that_make_no_sense_are_refused_with_their_row(change, message, tmp_path):
    whole = {
        "P0_data": np.array([0.5, 0.5, 1.0]),
        "P0_indices": np.array([0, 1, 1]),
        "P0_indptr": np.array([0, 2, 3]),
        "reward": np.array([1.0, 1.0]),
    }
    np.savez(tmp_path / "model.npz", **(whole | change))
    result = run(str(tmp_path / "model.npz"), "--out", str(tmp_path / "run"))
    assert isinstance(result.exception, BellmanError), result.output
    assert message in str(result.exception)


def test_samples_write_a_run_folder(tmp_path):
    out = tmp_path / "run"
    arguments = "FrozenLake-v1 --samples 1000 --mode cells --max-iter 100 --n-basis 12 --quiet"
    result = run(*arguments.split(), "--out", str(out))
    assert result.exit_code == 0, result.output
    for name in ("config.json", "metrics.jsonl", "checkpoint.bellman", "planner.bellman"):
        assert (out / name).exists()


def test_another_plan_does_not_take_the_place_of_one(tmp_path, monkeypatch):
    """What differs has a folder of its own; in one folder it is refused."""
    monkeypatch.chdir(tmp_path)
    lake = ("FrozenLake-v1", "--quiet")
    for extra in ((), ("--mode", "c51"), ("--map", "8x8"), ("--policy", "random")):
        assert run(*lake, *extra).exit_code == 0
    found = {p.name for p in (tmp_path / "runs").iterdir()}
    assert found == {f"plan-FrozenLake-v1{end}" for end in ("", "-c51", "-8x8", "-random")}
    before = Path("runs/plan-FrozenLake-v1/planner.bellman").read_bytes()
    assert run(*lake, "--gamma", "0.9").exit_code == 0
    assert len(list((tmp_path / "runs").iterdir())) == 5
    refused = run(*lake, "--gamma", "0.9", "--out", "runs/plan-FrozenLake-v1")
    assert "gamma: 0.99 → 0.9" in str(refused.exception)
    assert Path("runs/plan-FrozenLake-v1/planner.bellman").read_bytes() == before
    # The same one again is no other plan.
    assert run(*lake).exit_code == 0
    assert run("--load", "runs/plan-FrozenLake-v1", "--quiet").exit_code == 0


def test_policies_come_from_functions_and_tables(tmp_path, monkeypatch):
    (tmp_path / "walker.py").write_text(
        "def right(state):\n    return 2\n\ndef wrong(state):\n    return 9\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    np.save("table.npy", np.full(16, 2))
    means = []
    for policy in ("walker:right", "table.npy"):
        result = run("FrozenLake-v1", "--policy", policy, "--n-basis", "11", "--json")
        assert result.exit_code == 0, result.output
        means.append(json.loads(result.stdout.splitlines()[-1])["starts"][0]["mean"])
    assert means[0] == means[1]
    result = run("FrozenLake-v1", "--policy", "walker:wrong")
    assert isinstance(result.exception, BellmanError)
    assert "return an action from 0 to 3" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("FrozenLak-v1", "Did you mean FrozenLake-v1"),
        ("CartPole-v1 --exact", "--samples N in place of --exact"),
        ("FrozenLake-v1 --gamma 1.5", "must be in"),
        ("FrozenLake-v1 --gamma 0", "must be in"),
        ("FrozenLake-v1 --accuracy 0", "a share of the range"),
        ("FrozenLake-v1 --time-limit never", "choose bootstrap or end"),
        ("FrozenLake-v1 --objective cvar:2", "use mean, cvar:ALPHA"),
        ("Taxi-v4 --policy random --gamma 1 --time-limit end --mode c51", "for the default mode"),
        ("absent.npz", "no such file"),
        ("FrozenLake-v1 --exact --samples 1000", "exclude each other"),
        ("FrozenLake-v1 --mode c52", "choose default, paper, c51"),
        ("FrozenLake-v1 --policy nosuchmodule:f", "nosuchmodule"),
        ("FrozenLake-v1 --policy nothing", "module:function"),
        ("FrozenLake-v1 --policy absent.npy", "absent.npy"),
        ("FrozenLake-v1 --support 1 0", "empty"),
        ("FrozenLake-v1 --env-option slippery", "name=value"),
        ("FrozenLake-v1 --env-option nosuch=1", "does not take"),
        ("CartPole-v1 --samples 200", "optimal policy is known only"),
        ("Pendulum-v1 --samples 200 --policy builtins:len", "discrete policy does not fit"),
        ("Pendulum-v1 --samples 200 --policy math:isnan", "the policy failed on"),
        ("CartPole-v1 --samples 200 --policy absent.zip", "no such file"),
        ("", "name an environment"),
    ],
)
def test_bad_input_is_an_error_that_names_the_remedy(arguments, message, tmp_path):
    result = run(*arguments.split(), *(["--out", str(tmp_path / "run")] if arguments else []))
    assert isinstance(result.exception, BellmanError), result.output
    assert message in str(result.exception)
    # Nothing is left that the right command would stumble over.
    assert not (tmp_path / "run").exists()


def test_a_log_is_all_that_is_needed(tmp_path):
    """Episodes of three steps with a reward of 1 each: the whole episode returns 1 + 0.9 + 0.81."""
    left = np.tile([3.0, 2.0, 1.0], 300)
    frame = pd.DataFrame({"obs_0": left, "obs_1": 0 * left, "r": 1.0, "done": left == 1})
    frame.to_csv(tmp_path / "log.csv", index=False)
    out = str(tmp_path / "run")
    arguments = ["--column", "reward=r", "--gamma", "0.9", "--max-iter", "500", "--json"]
    result = run("--data", str(tmp_path / "log.csv"), *arguments, "--out", out)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout.splitlines()[-1])
    assert figures["episode"]["mean"] == pytest.approx(2.71, abs=0.05)
    assert figures["start"]["mean"]["value"] == pytest.approx(2.71, abs=1e-3)
    assert figures["planner"]["from_log"]
    for wrong, words in (
        (["--data", str(tmp_path / "log.csv")], "has no reward"),
        (["CartPole-v1", "--data", "log.csv"], "or a log"),
        (["--data", "none.csv"], "cannot be read"),
        (["--data", str(tmp_path / "log.csv"), "--column", "price=r"], "choose observation"),
        (["--data", str(tmp_path / "log.csv"), "--samples", "500"], "leave out"),
    ):
        refused = run(*wrong, "--out", str(tmp_path / "other"))
        assert isinstance(refused.exception, BellmanError), refused.output
        assert words in str(refused.exception)
    assert not (tmp_path / "other").exists()
