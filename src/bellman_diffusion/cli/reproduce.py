"""`bellman reproduce`: the paper's figures and tables."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from bellman_diffusion.agents.devices import use_all_cores
from bellman_diffusion.cli.options import Json, Quiet, Seed, print_json, show
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.experiments.ablation import TRANSFORMS, run_ablation
from bellman_diffusion.experiments.agents import CASES, run_agents
from bellman_diffusion.experiments.cartpole import ALGORITHMS, run_cartpole
from bellman_diffusion.experiments.convergence import run_convergence
from bellman_diffusion.experiments.equivalence import run_equivalence
from bellman_diffusion.experiments.frozenlake import run_frozenlake
from bellman_diffusion.experiments.linearity import run_linearity
from bellman_diffusion.experiments.maze_chain import ChainSettings, run_chain
from bellman_diffusion.experiments.mnist import MnistSettings, run_mnist
from bellman_diffusion.experiments.planning import run_planning
from bellman_diffusion.experiments.table_judge import TabularSettings
from bellman_diffusion.experiments.table_models import MODELS as TABULAR_MODELS
from bellman_diffusion.experiments.tabular import run_tabular
from bellman_diffusion.experiments.toy import MODELS, ToySettings, run_toy
from bellman_diffusion.experiments.treasure import run_treasure
from bellman_diffusion.experiments.uci_cases import CASES as TABULAR_CASES
from bellman_diffusion.experiments.usefulness import run_usefulness
from bellman_diffusion.images.model import ImageSettings
from bellman_diffusion.report.ablation_report import ablation_table, write_ablation_report
from bellman_diffusion.report.bellman_report import (
    chain_table,
    frozenlake_table,
    linearity_table,
    planning_table,
    treasure_table,
    write_chain_report,
    write_frozenlake_report,
    write_linearity_report,
    write_planning_report,
    write_treasure_report,
)
from bellman_diffusion.report.cartpole_report import (
    cartpole_table,
    cartpole_verdict,
    write_cartpole_report,
)
from bellman_diffusion.report.convergence_report import (
    convergence_table,
    write_convergence_report,
)
from bellman_diffusion.report.environments_report import (
    environments_table,
    write_environments_report,
)
from bellman_diffusion.report.equivalence_report import (
    equivalence_table,
    write_equivalence_report,
)
from bellman_diffusion.report.mnist_report import mnist_table, write_mnist_report
from bellman_diffusion.report.page import Table
from bellman_diffusion.report.tabular_report import tabular_table, write_tabular_report
from bellman_diffusion.report.toy_report import toy_table, write_toy_report
from bellman_diffusion.report.usefulness_report import (
    usefulness_table,
    write_usefulness_report,
)
from bellman_diffusion.training import NoProgress, RichProgress

Out = Annotated[Path, typer.Option("--out", "-o", help="Where results and the report go.")]

MaxIter = Annotated[
    int | None, typer.Option(min=1, help="Training steps; by default each model's own.")
]

reproduce = typer.Typer(help="Reproduce the paper's figures and tables.", no_args_is_help=True)


@reproduce.callback()
def _group() -> None:
    """Reproduce the paper's figures and tables."""


@reproduce.command()
def toy(
    seed: Seed = 0,
    seeds: Annotated[
        int, typer.Option(min=1, help="How many seeds to average over, from --seed on.")
    ] = 1,
    models: Annotated[
        str, typer.Option(help="Which models, separated by commas; the first leads.")
    ] = ",".join(MODELS),
    out: Out = Path("runs/toy"),
    max_iter: MaxIter = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """The synthetic figures (Section 5.1): disjoint uniform, unbalanced mixture, two moons.

    Run again with the same --out to go on where it stopped.
    """
    names: list[Any] = chosen("--models", models, MODELS)
    summary = run_toy(
        out,
        models=names,
        seeds=range(seed, seed + seeds),
        settings=ToySettings(max_iter=max_iter),
        progress=NoProgress() if quiet else RichProgress("models on sets"),
    )
    command = command_of("toy", seed=seed, seeds=seeds, models=models, max_iter=max_iter)
    report = write_toy_report(out, summary, command)
    _end(summary, toy_table(summary), "Synthetic sets", report, quiet, as_json)


@reproduce.command()
def frozenlake(
    seed: Seed = 0,
    seeds: Annotated[
        int, typer.Option(min=1, help="How many seeds of the learned planners, from --seed on.")
    ] = 1,
    out: Out = Path("runs/frozenlake"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """The maze figure (Section 5.3) and the accuracy of planners by what they are made of."""
    progress = NoProgress() if quiet else RichProgress("learned planners")
    summary = run_frozenlake(out, seed, seeds, progress=progress)
    command = command_of("frozenlake", seed=seed, seeds=seeds)
    report = write_frozenlake_report(out, summary, command, seed)
    _end(summary, frozenlake_table(summary), "FrozenLake", report, quiet, as_json)


@reproduce.command()
def linearity(
    seed: Seed = 0,
    out: Out = Path("runs/linearity"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Section 2's argument: the bias of one-step updates of energies, scores, log-densities, fields."""
    summary, pictures = run_linearity(out, seed)
    command = f"bellman reproduce linearity --seed {seed}"
    report = write_linearity_report(out, summary, pictures, command)
    _end(summary, linearity_table(summary), "Linearity", report, quiet, as_json)


@reproduce.command()
def chain(
    seed: Seed = 0,
    largest: Annotated[int, typer.Option(min=16, help="The largest maze, in blocks.")] = 512,
    out: Out = Path("runs/chain"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Appendix D.1: environment steps of full trajectories against one-step updates."""
    blocks = tuple(n for n in ChainSettings().blocks if n <= largest)
    progress = NoProgress() if quiet else RichProgress("mazes")
    summary = run_chain(out, seed, ChainSettings(blocks=blocks), progress)
    command = f"bellman reproduce chain --seed {seed} --largest {largest}"
    report = write_chain_report(out, summary, command)
    _end(summary, chain_table(summary), "Trajectories", report, quiet, as_json)


@reproduce.command()
def treasure(
    seed: Seed = 0,
    out: Out = Path("runs/treasure"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """The joint law of two returns: fields against histograms in the plane."""
    summary, extras = run_treasure(out, seed)
    report = write_treasure_report(
        out, summary, extras, f"bellman reproduce treasure --seed {seed}"
    )
    _end(summary, treasure_table(summary), "Two returns", report, quiet, as_json)


@reproduce.command()
def planning(
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from --seed on.")] = 5,
    out: Out = Path("runs/planning"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Planning from sampled transitions: FrozenLake beside C51, CartPole against returns."""
    progress = NoProgress() if quiet else RichProgress("plans")
    summary = run_planning(out, range(seed, seed + seeds), progress=progress)
    command = f"bellman reproduce planning --seed {seed} --seeds {seeds}"
    report = write_planning_report(out, summary, command)
    _end(summary, planning_table(summary), "Planning", report, quiet, as_json)


@reproduce.command()
def agents(
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from --seed on.")] = 5,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of each seed; the registered ones by default.")
    ] = None,
    envs: Annotated[str, typer.Option(help="Which environments, separated by commas.")] = ",".join(
        CASES
    ),
    out: Out = Path("runs/agents"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Agents on other environments: Acrobot, FrozenLake, LunarLander, Breakout, a windy cliff.

    Run again with the same --out to go on where it stopped.
    """
    use_all_cores()
    names = chosen("--envs", envs, CASES)
    summary = run_agents(out, range(seed, seed + seeds), names, steps, quiet)
    command = command_of("agents", seed=seed, seeds=seeds, envs=envs, steps=steps)
    report = write_environments_report(out, summary, command)
    shown = {name: value for name, value in summary.items() if name != "cells"}
    _end(shown, environments_table(summary), "Agents", report, quiet, as_json)


@reproduce.command()
def cartpole(
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from --seed on.")] = 10,
    steps: Annotated[int, typer.Option(min=1000, help="Environment steps of each seed.")] = 100_000,
    algos: Annotated[str, typer.Option(help="Which algorithms, separated by commas.")] = ",".join(
        ALGORITHMS
    ),
    out: Out = Path("runs/cartpole"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """The cart-pole experiment (Section 5.3): speed and steadiness beside C51 and QR-DQN.

    Run again with the same --out to go on where it stopped.
    """
    use_all_cores()
    names = chosen("--algos", algos, ALGORITHMS)
    steps = -(-steps // 1000) * 1000
    summary = run_cartpole(out, range(seed, seed + seeds), steps, names, quiet)
    command = (
        f"bellman reproduce cartpole --seed {seed} --seeds {seeds} --steps {steps} --algos {algos}"
    )
    report = write_cartpole_report(out, summary, command)
    table = cartpole_table(summary)
    shown = {name: value for name, value in summary.items() if name != "cells"}
    _end(shown, table, "Cart-pole", report, quiet, as_json)
    if not (quiet or as_json):
        typer.echo(cartpole_verdict(summary))


@reproduce.command()
def tabular(
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from --seed on.")] = 5,
    tables: Annotated[str, typer.Option(help="Which tables, separated by commas.")] = ",".join(
        TABULAR_CASES
    ),
    models: Annotated[str, typer.Option(help="Which models, separated by commas.")] = ",".join(
        TABULAR_MODELS
    ),
    out: Out = Path("runs/tabular"),
    max_iter: MaxIter = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Table 1 (Section 5.2): five UCI tables, our model beside DDPM and others.

    Run again with the same --out to go on where it stopped.
    """
    summary = run_tabular(
        out,
        range(seed, seed + seeds),
        cases=chosen("--tables", tables, TABULAR_CASES),
        models=chosen("--models", models, TABULAR_MODELS),
        settings=TabularSettings(max_iter=max_iter),
        progress=NoProgress() if quiet else RichProgress("models on tables"),
    )
    command = command_of(
        "tabular", seed=seed, seeds=seeds, tables=tables, models=models, max_iter=max_iter
    )
    report = write_tabular_report(out, summary, command)
    _end(summary, tabular_table(summary), "Tables", report, quiet, as_json)


@reproduce.command()
def ablation(
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from --seed on.")] = 3,
    tables: Annotated[str, typer.Option(help="Which tables, separated by commas.")] = ",".join(
        TRANSFORMS
    ),
    out: Out = Path("runs/ablation"),
    max_iter: MaxIter = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """The ablation (Appendix F.2): the kernel's variance and the number of slices.

    Run again with the same --out to go on where it stopped.
    """
    summary = run_ablation(
        out,
        range(seed, seed + seeds),
        tables=chosen("--tables", tables, TRANSFORMS),
        settings=TabularSettings(max_iter=max_iter),
        progress=NoProgress() if quiet else RichProgress("points"),
    )
    command = command_of("ablation", seed=seed, seeds=seeds, tables=tables, max_iter=max_iter)
    report = write_ablation_report(out, summary, command)
    _end(summary, ablation_table(summary), "Ablation", report, quiet, as_json)


@reproduce.command()
def usefulness(
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many splits, from --seed on.")] = 10,
    out: Out = Path("runs/usefulness"),
    max_iter: MaxIter = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train on synthetic rows, test on real ones: Abalone with TabDDPM's sizes.

    Run again with the same --out to go on where it stopped.
    """
    summary = run_usefulness(
        out,
        range(seed, seed + seeds),
        max_iter=max_iter,
        progress=NoProgress() if quiet else RichProgress("splits"),
    )
    command = command_of("usefulness", seed=seed, seeds=seeds, max_iter=max_iter)
    report = write_usefulness_report(out, summary, command)
    _end(summary, usefulness_table(summary), "Usefulness", report, quiet, as_json)


@reproduce.command()
def convergence(
    seed: Seed = 0,
    out: Out = Path("runs/convergence"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Theorems 4.1 and 4.2: how fast the dynamics forget their start, and what errors do."""
    # Nothing here is random.
    del seed
    summary = run_convergence(out)
    report = write_convergence_report(out, summary, "bellman reproduce convergence")
    _end(summary, convergence_table(summary), "Convergence", report, quiet, as_json)


@reproduce.command()
def equivalence(
    seed: Seed = 0,
    out: Out = Path("runs/equivalence"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Propositions 3.1 and 3.2: whether the losses that can be estimated are those that are meant."""
    summary = run_equivalence(out, seed)
    report = write_equivalence_report(out, summary, command_of("equivalence", seed=seed))
    _end(summary, equivalence_table(summary), "Field matching", report, quiet, as_json)


@reproduce.command()
def mnist(
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from --seed on.")] = 3,
    out: Out = Path("runs/mnist"),
    vae_steps: Annotated[int, typer.Option(min=1, help="Training steps of the autoencoder.")] = (
        ImageSettings.vae_steps
    ),
    latent_steps: Annotated[
        int, typer.Option(min=1, help="Training steps of the models of the codes.")
    ] = ImageSettings.latent_steps,
    classifier_steps: Annotated[
        int, typer.Option(min=1, help="Training steps of the classifier that judges.")
    ] = MnistSettings.classifier_steps,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Digits by latent generation (Appendix F.1), beside DDPM and the autoencoder's prior.

    Run again with the same --out to go on where it stopped.
    """
    titles = ("autoencoder", "classifier", "models")
    bars = [NoProgress() if quiet else RichProgress(title) for title in titles]
    steps = {"vae_steps": vae_steps, "latent_steps": latent_steps}
    settings = MnistSettings(ImageSettings(**steps), classifier_steps)
    summary = run_mnist(out, range(seed, seed + seeds), settings=settings, progress=bars)
    command = command_of(
        "mnist", seed=seed, seeds=seeds, **steps, classifier_steps=classifier_steps
    )
    report = write_mnist_report(out, summary, command)
    _end(summary, mnist_table(summary), "Digits", report, quiet, as_json)


def command_of(name: str, **options: int | str | None) -> str:
    """The command that makes a report, with every option that is set."""
    given = [f"--{k.replace('_', '-')} {v}" for k, v in options.items() if v is not None]
    return " ".join(["bellman reproduce", name, *given])


def chosen(option: str, text: str, known: Collection[str]) -> list[str]:
    """Names separated by commas: each one known, none twice."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or len(set(names)) < len(names) or any(name not in known for name in names):
        raise InvalidInputError(
            f"{option} {text!r}: choose different names from {', '.join(known)}"
        )
    return names


def _end(
    summary: dict[str, Any], table: Table, title: str, report: Path, quiet: bool, as_json: bool
) -> None:
    show(table, title, quiet=quiet or as_json)
    if as_json:
        print_json(summary | {"report": str(report)})
    elif not quiet:
        typer.echo(f"Report: {report}")
