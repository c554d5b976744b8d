"""`bellman train`: distributional agents on any environment with discrete actions."""

import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from bellman_diffusion.agents.agent import AGENT_FILE, save_agents
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.devices import use_all_cores
from bellman_diffusion.agents.distributed import gathered, join, own_share
from bellman_diffusion.agents.registry import default_config
from bellman_diffusion.agents.train import Training, train_agents
from bellman_diffusion.cli.options import Json, Quiet, Seed, command_line, finish, show
from bellman_diffusion.cli.run_settings import read_fields, read_pairs
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.render.training_page import training_table, write_training_report
from bellman_diffusion.training import NoProgress, RunFolder, training_bar
from bellman_diffusion.training.files import write_json


def train(
    env_id: Annotated[
        str, typer.Argument(help="A Gymnasium id, or one of gymnax's MinAtar games.")
    ],
    algo: Annotated[
        str, typer.Option(help="bellman, bellman-cramer, bellman-paper, c51, qr-dqn or dqn.")
    ] = "bellman",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from --seed on.")] = 1,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Environment steps of each seed.")
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="Discount.")] = None,
    risk: Annotated[
        str, typer.Option(help="Choose actions by mean, cvar:0.1, quantile:0.25 or above:RETURN.")
    ] = "mean",
    support: Annotated[
        tuple[float, float] | None,
        typer.Option(help="The range of returns; found and grown by itself where not given."),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other setting as name=value; see docs/agents.md."),
    ] = None,
    env_option: Annotated[
        list[str] | None, typer.Option(help="An argument of the environment, as name=value.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The run's folder; runs/ENV-ALGO by default.")
    ] = None,
    coordinator: Annotated[
        str | None, typer.Option(help="HOST:PORT of process 0, for several processes.")
    ] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="How many processes.")] = None,
    process: Annotated[int | None, typer.Option(min=0, help="Which one this is.")] = None,
    distributed: Annotated[
        bool, typer.Option(help="Several processes that Slurm or Kubernetes started.")
    ] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train one agent per seed, evaluate each by greedy episodes, and write a run folder.

    Run again with the same options to continue where it stopped.
    """
    use_all_cores()
    if coordinator is None and (processes is not None or process is not None):
        raise InvalidInputError("--processes and --process need --coordinator HOST:PORT")
    if distributed or coordinator is not None:
        join(coordinator, processes, process)
    config = _config(env_id, algo, steps, gamma, risk, support, change, env_option)
    everyone = list(range(seed, seed + seeds))
    folder = out or Path("runs") / _name(config)
    own_folder, training = _run(config, everyone, folder, quiet)
    save_agents(own_folder / AGENT_FILE, training)
    _end(training, everyone, folder, quiet, as_json)


def _config(
    env_id: str,
    algo: str,
    steps: int | None,
    gamma: float | None,
    risk: str,
    support: tuple[float, float] | None,
    change: list[str] | None,
    env_option: list[str] | None,
) -> AgentConfig:
    changes = read_fields(change or [], AgentConfig, "--set")
    options = {
        "env_id": "ENV_ID",
        "env_options": "--env-option",
        "algo": "--algo",
        "risk": "--risk",
    }
    for name in changes.keys() & options.keys():
        raise InvalidInputError(f"--set {name}: give it as {options[name]}")
    given: dict[str, Any] = {"steps": steps, "gamma": gamma, "support": support}
    changes |= {name: value for name, value in given.items() if value is not None}
    changes |= {"algo": algo, "risk": risk}
    changes["env_options"] = read_pairs(env_option or [], "--env-option")
    return default_config(env_id, **changes)


def _run(
    config: AgentConfig, everyone: list[int], folder: Path, quiet: bool
) -> tuple[Path, Training]:
    """The folder of this process, and what it trained."""
    seeds = own_share(everyone)
    if seeds[0] != everyone[0]:
        # Each process keeps its own checkpoints and figures; the first one's folder has the whole.
        folder = folder / f"seeds-{seeds[0]}-{seeds[-1]}"
    run = RunFolder(folder, config.to_json() | {"seeds": seeds})
    bar = NoProgress() if quiet else training_bar(f"{config.env_id} {config.algo}")
    return folder, train_agents(config, seeds, run=run, progress=bar)


def _end(training: Training, everyone: list[int], folder: Path, quiet: bool, as_json: bool) -> None:
    returns = gathered(training.returns, len(everyone))
    if training.seeds[0] != everyone[0]:
        return
    whole = training.over(everyone, returns)
    figures = {
        "seeds": msgspec.to_builtins(whole.summary()),
        "steps_per_second": training.steps_per_second,
        "compile_seconds": training.compile_seconds,
        "config": training.config.to_json(),
    }
    write_json(folder / "figures.json", figures)
    report = write_training_report(folder, whole, command_line())
    show(
        training_table(whole), f"{whole.config.env_id}, {whole.config.algo}", quiet=quiet or as_json
    )
    finish(
        figures | {"report": str(report), "run": str(folder)},
        f"Compiled in {training.compile_seconds:.1f} s, {training.steps_per_second:,.0f} steps/s",
        f"Report: {report}",
        quiet=quiet,
        as_json=as_json,
    )


def _name(config: AgentConfig) -> str:
    risk = "" if config.risk == "mean" else f"-{config.risk}"
    return re.sub(r"[^A-Za-z0-9.]+", "-", f"{config.env_id}-{config.algo}{risk}")
