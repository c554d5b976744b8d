"""bellman train, evaluate and watch."""

import contextlib
import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple
from unittest import mock

import pytest
from PIL import Image

from bellman_diffusion.cli import main

SETTINGS = (
    *("eval_every=300", "eval_episodes=3", "learning_starts=200"),
    *("hidden=16", "batch_size=16", "n_outputs=11"),
)
QUICK = ["--steps", "600", *(word for pair in SETTINGS for word in ("--set", pair))]


class Done(NamedTuple):
    returncode: object
    stdout: str
    stderr: str


def bellman(*arguments: str) -> Done:
    """The command in this process: what was compiled once stays so."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["bellman", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as stop,
    ):
        main.run()
    return Done(stop.value.code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agents") / "run"
    done = bellman("train", "CartPole-v1", "--seeds", "2", "--json", "--out", str(folder), *QUICK)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout.splitlines()[-1])


def test_train_says_what_each_seed_reached(run):
    folder, figures = run
    assert [row["seed"] for row in figures["seeds"]] == [0, 1]
    assert {"greedy_return", "first_solved_step"} <= set(figures["seeds"][0])
    assert figures["seeds"][0]["first_solved_step"] is None
    assert figures["steps_per_second"] > 0
    assert figures["compile_seconds"] > 0
    for name in (
        "config.json",
        "metrics.jsonl",
        "agent.bellman",
        "report.html",
        "figures/curves.png",
    ):
        assert (folder / name).stat().st_size > 0
    assert list((folder / "tensorboard").iterdir())


def test_evaluate_gives_means_and_risk(run):
    done = bellman("evaluate", str(run[0]), "--episodes", "5", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])["seeds"]
    assert len(rows) == 2
    assert all(row["least"] <= row["cvar_10"] <= row["mean_return"] for row in rows)


def test_watch_draws_an_episode(run, tmp_path):
    out = tmp_path / "episode.gif"
    done = bellman("watch", str(run[0]), "-o", str(out), "--steps", "6", "--json")
    assert done.returncode == 0, done.stderr
    with Image.open(out) as picture:
        assert picture.n_frames == 3
        assert picture.size[0] > picture.size[1] > 100


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["Pendulum-v1"], "ActionWrapper"),
        (["CartPol-v1"], "CartPole-v1"),
        (["CartPole-v1", "--algo", "rainbow"], "bellman-paper"),
        (["CartPole-v1", "--risk", "cvar:7"], "cvar:0.1"),
        (["CartPole-v1", "--gamma", "1.2"], "gamma"),
        (["CartPole-v1", "--set", "speed=3"], "no such setting"),
        (["CartPole-v1", "--set", "batch_size=many"], "int is needed"),
        (["CartPole-v1", "--support", "5", "1"], "low < high"),
        (["CartPole-v1", "--set", "sigma=4", "--set", "n_outputs=20"], "n_outputs of at least 26"),
        (["CartPole-v1", "--set", "sigma=9"], "at most"),
        (["CartPole-v1", "--set", "algo=c51"], "--algo"),
        (["CartPole-v1", "--set", "steps_per_round=0"], "steps_per_round"),
        (["CartPole-v1", "--set", "support=5"], "numbers with commas"),
        (["CartPole-v1", "--risk", "above:nan"], "cvar:0.1"),
        (["CartPole-v1", "--processes", "2"], "--coordinator"),
        (["FrozenLake-v1", "--env-option", "map_name=9x9"], "cannot be made"),
        (["CartPole-v1", "--set", "hidden=a,b"], "numbers with commas"),
        (["CartPole-v1", "--set", "steps"], "name=value"),
        (["CartPole-v1", "--out", "/dev/full/x"], "name a folder"),
    ],
)
def test_bad_input_ends_with_one_line_and_code_2(arguments, cause, tmp_path):
    out = [] if "--out" in arguments else ["--out", str(tmp_path / "run")]
    done = bellman("train", *arguments, *out)
    assert done.returncode == 2, done.stderr
    assert cause in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_another_configuration_does_not_touch_a_run(run):
    before = (run[0] / "checkpoint.bellman").read_bytes()
    done = bellman("train", "CartPole-v1", "--algo", "c51", "--out", str(run[0]), *QUICK)
    assert done.returncode == 2
    assert "another configuration" in done.stderr
    assert (run[0] / "checkpoint.bellman").read_bytes() == before


def test_ctrl_c_stops_cleanly_and_the_run_goes_on(tmp_path):
    """A run that is stopped and resumed ends like one that was not."""
    options = [*QUICK, "--set", "eval_every=100", "--steps", "5000", "--quiet"]
    command = [sys.executable, "-m", "bellman_diffusion.cli.main", "train", "CartPole-v1", *options]
    cut = tmp_path / "cut"
    # Tests that run in the background of a shell have the signal switched off, and so would the run.
    listening = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL)"
    listening += "; os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", listening, *command, "--out", str(cut)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    metrics = cut / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command again" in errors
    assert "Traceback" not in errors
    rows = len(metrics.read_text().splitlines())
    assert 1 <= rows < 50
    for folder in (cut, tmp_path / "whole"):
        done = bellman(*command[3:], "--out", str(folder))
        assert done.returncode == 0, done.stderr
    assert metrics.read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()
    agents = [(tmp_path / name / "agent.bellman").read_bytes() for name in ("cut", "whole")]
    assert agents[0] == agents[1]


def test_two_processes_give_what_one_gives(run, tmp_path):
    """Each process has half of the seeds; what a seed learns does not depend on where it runs."""
    options = ["train", "CartPole-v1", "--seeds", "2", "--json", "--quiet", *QUICK]
    port = 20_000 + os.getpid() % 20_000
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "bellman_diffusion.cli.main", *options),
                *("--out", str(tmp_path / "two"), "--coordinator", f"localhost:{port}"),
                *("--processes", "2", "--process", str(i)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert json.loads(outputs[0][0].splitlines()[-1])["seeds"] == run[1]["seeds"]


def test_a_full_disk_is_said_and_what_was_saved_is_kept(run, monkeypatch):
    """A resume of a finished run only rewrites its files; the disk is full while it does."""
    folder, _ = run
    kept = {
        name: (folder / name).read_bytes()
        for name in ("checkpoint.bellman", "agent.bellman", "metrics.jsonl")
    }

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = bellman("train", "CartPole-v1", "--seeds", "2", "--out", str(folder), *QUICK)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert {name: (folder / name).read_bytes() for name in kept} == kept
    assert not list(folder.glob("*.tmp"))
