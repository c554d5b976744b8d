"""`bellman evaluate`: greedy episodes of a trained agent, or a table model against its table."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from bellman_diffusion.agents.agent import Agent
from bellman_diffusion.agents.episodes import greedy_returns
from bellman_diffusion.cli.options import Json, Quiet, Seed, command_line, finish, print_json, show
from bellman_diffusion.cli.tables import Encoding, Header, Missing, Separator, reader
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.render.page import Table
from bellman_diffusion.render.table_page import evaluation_table, write_table_report
from bellman_diffusion.tables import TableModel, evaluate_rows
from bellman_diffusion.tables.model import MODEL_FILE, digest
from bellman_diffusion.training.files import write_json

_ALPHA = 0.1


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a training run, or of a table model.")],
    table: Annotated[
        Path | None, typer.Argument(help="For a table model: the table, or one of other rows.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each seed's agent.")] = 100,
    learned: Annotated[
        Path | None,
        typer.Option(help="The table that was learned from, where TABLE has other rows."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The column to predict from the others; by default the last.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where the page goes; by default the model's folder."),
    ] = None,
    separator: Separator = None,
    encoding: Encoding = "utf-8",
    header: Header = True,
    missing: Missing = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Evaluate an agent by greedy episodes, or a table model against real rows."""
    if table is None and (run / MODEL_FILE).exists():
        raise InvalidInputError(
            f"{run} is a table model: name a table, bellman evaluate {run} TABLE"
        )
    if table is None:
        _evaluate_agent(run, episodes, seed, quiet, as_json)
        return

    read = reader(separator, encoding, header, missing)
    model = TableModel.load(run)
    known, fresh, copies = _sides(model, read(table), None if learned is None else read(learned))
    synthetic = model.sample(min(max(len(known), len(fresh)), _MOST_DRAWN), random_state=seed)
    result = evaluate_rows(
        synthetic, known, fresh, model.schema_, target=target, seed=seed, copies=copies
    )
    folder = out or (run if run.is_dir() else run.parent)
    figures = result.to_json()
    write_json(folder / "evaluation.json", figures)
    report = write_table_report(
        folder, result, model.schema_, synthetic, fresh, command_line(), table.name
    )
    show(evaluation_table(result), f"{table.name}: synthetic rows", quiet=quiet or as_json)
    line = f"Report: {report}"
    finish(figures | {"report": str(report)}, line, quiet=quiet, as_json=as_json)


_MOST_DRAWN = 50_000


def _sides(
    model: TableModel, frame: pd.DataFrame, learned: pd.DataFrame | None
) -> tuple[pd.DataFrame, pd.DataFrame, bool]:
    """Training rows, held-out rows, and whether the first are known to be training rows.

    Of a table of other rows one half takes the place of the training rows in the floors.
    """
    names = model.schema_.names
    for given in [frame] if learned is None else [frame, learned]:
        lacking = [name for name in names if name not in given.columns]
        if lacking:
            raise InvalidInputError(
                f"the table lacks columns of the model: {', '.join(map(repr, lacking))}"
            )
    own: Any = frame[names]
    if learned is not None:
        others: Any = learned[names]
        return others, own, True
    if digest(own) == model.digest_:
        rows = model.split(len(own))
        if not len(rows.held_out):
            raise InvalidInputError(
                "the model learned from every row of this table: give another one, or fit with "
                "--hold-out 0.1"
            )
        return own.iloc[rows.learned], own.iloc[rows.held_out], True
    half = np.random.default_rng(0).permutation(len(own))
    middle = len(own) // 2
    return own.iloc[half[:middle]], own.iloc[half[middle:]], False


def _evaluate_agent(run: Path, episodes: int, seed: int, quiet: bool, as_json: bool) -> None:
    first = Agent.load(run)
    figures = []
    for agent_seed in first.seeds:
        agent = Agent.load(run, agent_seed)
        returns = np.sort(greedy_returns(agent, episodes, seed))
        worst = returns[: max(1, int(np.ceil(_ALPHA * episodes)))]
        figures.append(
            {
                "seed": agent_seed,
                "mean_return": float(returns.mean()),
                "deviation": float(returns.std()),
                "least": float(returns[0]),
                "cvar_10": float(worst.mean()),
            }
        )
    rows = [
        ("seed", str(f["seed"]), *(f"{v:.4g}" for k, v in f.items() if k != "seed"))
        for f in figures
    ]
    header = ("", "", "mean return", "deviation", "least", "CVaR 10 %")
    title = f"{first.spec.env_id}, {first.config.algo}: {episodes} greedy episodes"
    show(Table(header, rows), title, quiet=quiet or as_json)
    if as_json:
        print_json({"env_id": first.spec.env_id, "episodes": episodes, "seeds": figures})
