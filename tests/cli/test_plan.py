"""`bellman plan`: figures, saved planners, refusals."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bellman_diffusion.cli.main import app
from bellman_diffusion.errors import BellmanError

runner = CliRunner()


def run(*arguments):
    return runner.invoke(app, ["plan", *arguments], catch_exceptions=True)


def test_frozen_lake_meets_its_bar_and_can_be_loaded_again(tmp_path):
    out = str(tmp_path / "run")
    arguments = "FrozenLake-v1 --policy optimal --gamma 0.99 --exact --n-basis 21 --sigma 0.05"
    result = run(*arguments.split(), "--json", "--out", out)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout.splitlines()[-1])
    assert figures["w1_worst"] <= 0.0005
    assert figures["mean_error_worst"] <= 0.0005
    assert figures["starts"][0]["mean"] == pytest.approx(0.542, abs=1e-3)
    assert (tmp_path / "run" / "report.html").exists()
    again = run("--load", f"{out}/planner.bellman", "--json")
    assert json.loads(again.stdout.splitlines()[-1])["starts"] == figures["starts"]


def test_samples_write_a_run_folder(tmp_path):
    out = tmp_path / "run"
    arguments = "FrozenLake-v1 --samples 1000 --max-iter 100 --n-basis 11 --support 0 1 --quiet"
    result = run(*arguments.split(), "--out", str(out))
    assert result.exit_code == 0, result.output
    for name in ("config.json", "metrics.jsonl", "checkpoint.bellman", "planner.bellman"):
        assert (out / name).exists()


def test_another_plan_does_not_take_the_place_of_one(tmp_path, monkeypatch):
    """What differs by default has a folder of its own; in one folder it is refused."""
    monkeypatch.chdir(tmp_path)
    few = ("FrozenLake-v1", "--n-basis", "11", "--quiet")
    for extra in ((), ("--mode", "c51"), ("--map", "8x8"), ("--policy", "random")):
        assert run(*few, *extra).exit_code == 0
    found = {p.name for p in (tmp_path / "runs").iterdir()}
    assert found == {f"plan-FrozenLake-v1{end}" for end in ("", "-c51", "-8x8", "-random")}
    before = Path("runs/plan-FrozenLake-v1/planner.bellman").read_bytes()
    refused = run(*few, "--gamma", "0.9")
    assert "gamma: 0.99 → 0.9" in str(refused.exception)
    assert Path("runs/plan-FrozenLake-v1/planner.bellman").read_bytes() == before
    # The same one again is no other plan.
    assert run(*few).exit_code == 0
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
