import json
import subprocess
import sys

import pytest

from bellman_diffusion.cli import demo, main
from bellman_diffusion.cli.lazy import COMMANDS, load
from bellman_diffusion.cli.options import show
from bellman_diffusion.paper import experiment
from bellman_diffusion.paper.experiments import toy
from bellman_diffusion.paper.toy_cells import ToySettings
from bellman_diffusion.render.page import Table


def tiny(**changes):
    return ToySettings(n_train=300, n_compare=50, n_repeats=1, max_iter=10, n_grid=5)


def call(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["bellman", *arguments])
    with pytest.raises(SystemExit) as stop:
        main.run()
    return stop.value.code


def test_json_is_the_last_line_of_stdout(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(toy, "ToySettings", tiny)
    arguments = ("reproduce", "toy", "--models", "score", "--json", "--out", str(tmp_path))
    assert call(monkeypatch, *arguments) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["uniform"].keys() >= {"w1", "w1_floor", "gap_share", "seconds"}
    assert (tmp_path / "report.html").exists()


def test_demo_prints_a_table_and_names_its_report(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(demo, "ToySettings", tiny)
    monkeypatch.setattr(demo, "_STEPS", 1000)
    assert call(monkeypatch, "demo", "--out", str(tmp_path)) == 0
    out = capsys.readouterr().out
    assert "two moons" in out
    report, view = out.rstrip().splitlines()[-2:]
    assert report == f"Report: {tmp_path / 'report.html'}"
    assert view.endswith(str(tmp_path / "view.html"))
    page = (tmp_path / "view.html").read_text()
    assert all(env in page for env in ("CartPole-v1", "FrozenLake-v1"))


def test_user_errors_are_one_line_and_exit_code_2(monkeypatch, capsys, tmp_path):
    assert call(monkeypatch, "reproduce", "toy", "--models", "best", "--out", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert error.startswith("bellman: --models 'best'")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_a_user_error(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(toy, "ToySettings", tiny)
    out = str(tmp_path / "file" / "below")
    assert call(monkeypatch, "reproduce", "toy", "--models", "score", "--quiet", "--out", out) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_ctrl_c_says_how_to_go_on(monkeypatch, capsys, tmp_path):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run_parallel", interrupted)
    assert call(monkeypatch, "reproduce", "toy", "--out", str(tmp_path)) == 130
    assert "run the same command again" in capsys.readouterr().err


def test_version_is_printed(monkeypatch, capsys):
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.startswith("bellman-diffusion 0.")


@pytest.mark.parametrize("arguments", [["nonsense"], ["reproduce", "toy", "--seeds", "0"]])
def test_wrong_usage_is_exit_code_2_without_a_traceback(arguments):
    command = [sys.executable, "-m", "bellman_diffusion.cli.main", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_list_of_commands_says_what_each_says_of_itself(name):
    command = load(name)
    assert command.name == name
    assert " ".join((command.help or "").split("\n\n")[0].split()) == COMMANDS[name]


def test_help_is_shown_without_jax():
    """It takes seconds to import."""
    code = (
        "import sys; from bellman_diffusion.cli import main\n"
        "sys.argv = ['bellman', '--help']\n"
        "try: main.run()\n"
        "except SystemExit: print('jax' in sys.modules, 'matplotlib' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "False False"
    for name, line in COMMANDS.items():
        assert name in said.stdout
        assert line.split()[0] in said.stdout


def test_names_with_brackets_are_shown_as_they_are(capsys):
    """Rich would take them for its own marks, and fail on a closing one."""
    show(Table(("rate [/min]", "v"), [("speed [m/s]", "1")]), "a [bold] table", quiet=False)
    said = capsys.readouterr().out
    for name in ("rate [/min]", "speed [m/s]", "a [bold] table"):
        assert name in said


def test_a_file_in_the_place_of_a_runs_folder_is_left_alone(tmp_path, monkeypatch, capsys):
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    assert call(monkeypatch, "train", "CartPole-v1", "--out", str(notes)) == 2
    said = capsys.readouterr().err
    assert "name a folder" in said
    assert "remove" not in said
    assert notes.read_text() == "mine"
    (tmp_path / "config.json").write_text("[1, 2]")
    assert call(monkeypatch, "train", "CartPole-v1", "--out", str(tmp_path)) == 2
    assert "choose another folder" in capsys.readouterr().err
