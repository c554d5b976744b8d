"""Compiled programs are shared by processes, in a folder of the user's or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bellman_diffusion.cli.compile_cache import keep_programs

# As agents are compiled: ahead of time.
COMPILES = """
from bellman_diffusion.cli.compile_cache import keep_programs
keep_programs()
import jax
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
program = jax.jit(lambda x: (x @ x).sum()).lower(jax.numpy.ones((3, 3))).compile()
assert program(jax.numpy.ones((3, 3))) == 27
print(hits.count("/jax/compilation_cache/cache_hits"))
"""
# What JAX says after the command line was read; `plan` is imported to show its options.
READS = """
import sys
from typer.testing import CliRunner
from bellman_diffusion.cli.main import app
assert "jax" not in sys.modules
assert CliRunner().invoke(app, [*sys.argv[1:], "plan", "--help"]).exit_code == 0
import jax
print(jax.config.jax_enable_compilation_cache, jax.config.jax_compilation_cache_dir)
"""


def run(code: str, *arguments: str, **environment: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "BELLMAN_CACHE"))}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, env=clean | environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def entries(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*-cache")}


def test_the_second_process_compiles_nothing(tmp_path):
    small = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    assert run(COMPILES, BELLMAN_CACHE_DIR=str(tmp_path), **small) == "0"
    first = entries(tmp_path)
    assert first
    assert int(run(COMPILES, BELLMAN_CACHE_DIR=str(tmp_path), **small)) == len(first)
    assert entries(tmp_path) == first


def test_off_writes_nothing(tmp_path):
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    quick = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    assert run(COMPILES, BELLMAN_CACHE_DIR="off", **home, **quick) == "0"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("unwanted", [False, True])
def test_the_command_sets_it_up_before_jax_is_imported(tmp_path, unwanted):
    options = ["--no-cache"] if unwanted else []
    enabled, folder = run(READS, *options, BELLMAN_CACHE_DIR=str(tmp_path)).split()
    assert enabled == str(not unwanted)
    assert (folder == "None") == unwanted
    assert bool(list(tmp_path.iterdir())) != unwanted


def test_jaxs_own_variable_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("BELLMAN_CACHE_DIR", str(tmp_path / "ours"))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "theirs"))
    assert keep_programs() == tmp_path / "theirs"
    assert not (tmp_path / "ours").exists()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("BELLMAN_CACHE_DIR", str(tmp_path / "file"))
    assert keep_programs() is None
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "BELLMAN_CACHE_DIR" in said
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
