"""`bellman demo`: the main jobs, small enough to watch."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bellman_diffusion.agents.agent import AGENT_FILE, save_agents
from bellman_diffusion.agents.registry import default_config
from bellman_diffusion.agents.train import train_agents
from bellman_diffusion.cli.options import Json, Quiet, Seed, finish, show
from bellman_diffusion.paper.experiment import Workplace
from bellman_diffusion.paper.experiments import toy
from bellman_diffusion.paper.toy_cells import ToySettings
from bellman_diffusion.planning import PlanSettings, plan
from bellman_diffusion.planning.planner import PLANNER_FILE
from bellman_diffusion.render.page import write_page
from bellman_diffusion.render.plan_page import plan_sections, risk_figures, risk_table
from bellman_diffusion.render.training_page import training_sections, training_table
from bellman_diffusion.view import record_run, write_view

# Enough for a solved CartPole, and little enough to wait for.
_STEPS = 30_000


def demo(
    seed: Seed = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the report goes.")] = Path(
        "runs/demo"
    ),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn three synthetic sets, plan in FrozenLake, train a CartPole agent; one report of it all."""
    silent = quiet or as_json
    work = Workplace(out, quiet)
    summary = toy.run(toy.ToyOptions(seed=seed, models="default"), work, ToySettings(n_repeats=2))
    show(toy.toy_table(summary), "Synthetic sets", quiet=silent)
    planner = plan(PlanSettings("FrozenLake-v1", seed=seed))
    planner.save(out / PLANNER_FILE)
    risks = risk_figures(planner)
    show(risk_table(risks), "FrozenLake: return of the optimal policy", quiet=silent)
    training = train_agents(
        default_config("CartPole-v1", steps=_STEPS, eval_every=_STEPS // 10),
        [seed],
        progress=work.bar("CartPole-v1 bellman", ("return",), "steps/s"),
    )
    save_agents(out / AGENT_FILE, training)
    show(training_table(training), "CartPole: return of the agent", quiet=silent)
    sections = [
        *toy.sections(summary, work.figures),
        *plan_sections(out, planner),
        *training_sections(out, training),
    ]
    report = write_page(out / "report.html", "Demo", f"bellman demo --seed {seed}", sections)
    view = write_view(
        out / "view.html", record_run(out, seed=seed), f"bellman view {out} --seed {seed}"
    )
    lake = planner.figures.to_json() | {"starts": msgspec.to_builtins(risks)}
    agent = {"seeds": msgspec.to_builtins(training.summary())}
    figures = {"frozenlake": lake, "cartpole": agent, "report": str(report), "view": str(view)}
    lines = (f"Report: {report}", f"Look inside the agent and the planner: {view}")
    finish(summary.to_json() | figures, *lines, quiet=quiet, as_json=as_json)
