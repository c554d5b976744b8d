"""`bellman plan`: policy evaluation, the whole return distribution of a policy (Algorithm 3)."""

import hashlib
import json
import re
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from bellman_diffusion.cli.options import Json, Quiet, Seed, command_line, print_json, show
from bellman_diffusion.cli.run_settings import read_pairs
from bellman_diffusion.environments.model_files import is_model_file
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.planning.header import LOGGED_POLICY
from bellman_diffusion.planning.logs import Log, read_log
from bellman_diffusion.planning.plan import PlanSettings, plan_log
from bellman_diffusion.planning.plan import plan as make_plan
from bellman_diffusion.planning.planner import PLANNER_FILE, POLICY_FILE, Planner
from bellman_diffusion.render.joint import component_planners, correlation_table
from bellman_diffusion.render.plan_page import (
    accuracy_table,
    episode_risk,
    plan_table,
    risk_figures,
    warnings_of,
    write_plan_report,
)
from bellman_diffusion.training import NoProgress, RichProgress, RunFolder
from bellman_diffusion.training.files import write_json

Policy = Annotated[
    str | None,
    typer.Option(
        help="optimal (the default), random, module:function, a .npy table, or a Stable-Baselines3 "
        ".zip. With --data the default is the policy that was logged."
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        help="Evaluate the policy that a log is of, or with --policy another one: .npz, .csv or "
        ".parquet of transitions, or a Minari dataset."
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option("--column", help="Where the log has what, as reward=r; may be repeated."),
]
AlsoGamma = Annotated[
    list[float] | None,
    typer.Option(
        help="A further discount of the same rewards; may be repeated. The return is a vector then, "
        "as with vector rewards."
    ),
]
MapName = Annotated[str | None, typer.Option("--map", help="FrozenLake's map, such as 4x4 or 8x8.")]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env-option", help="name=value, given to the environment; may be repeated."),
]
Mode = Annotated[
    str,
    typer.Option(
        help="default, paper (Algorithm 3, plain backup, L2) or c51; with --samples also another "
        "return model, such as quantile."
    ),
]
Samples = Annotated[
    int | None, typer.Option(min=100, help="Learn from so many one-step transitions.")
]
Exact = Annotated[
    bool, typer.Option("--exact", help="Solve from the transition table (the default).")
]
ObjectiveOption = Annotated[
    str,
    typer.Option(
        help="What the optimal policy is best for, over the whole episode: mean, cvar:0.1, "
        "quantile:0.05, above:10 or mean-cvar:0.5:0.1 (weight of CVaR, level)."
    ),
]
Accuracy = Annotated[
    float,
    typer.Option(
        help="Of exact planning: bound on W1 and width of the CVaR 10 % interval in every state, as "
        "shares of the range of returns."
    ),
]
TimeLimit = Annotated[
    str,
    typer.Option(
        help="bootstrap: a time limit is a truncation; end: it ends the episode, as scores count it."
    ),
]
Check = Annotated[
    bool, typer.Option("--check", help="Compare with an independent computation (slow).")
]
Stochastic = Annotated[
    bool,
    typer.Option(
        "--stochastic/--deterministic",
        help="Sample from the policy's distribution of actions, or take its mode.",
    ),
]
Normalize = Annotated[
    str | None,
    typer.Option(help="The file of VecNormalize that a Stable-Baselines3 policy was trained with."),
]
Trace = Annotated[
    float,
    typer.Option(min=0, max=1, help="λ of the mixtures of n-step targets along sampled episodes."),
]
NBasis = Annotated[
    int | None,
    typer.Option(
        min=3,
        help="Cells in exact planning, by default what --accuracy needs; with --samples the numbers "
        "that the network gives (101), three a cell; atoms or basis functions of other modes (41).",
    ),
]
Sigma = Annotated[
    float | None, typer.Option(help="Smoothing of the density; by default 1 % of the range.")
]
Range = Annotated[
    tuple[float, float] | None,
    typer.Option(help="The range of returns, low and high; found if not given."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", help="The run's folder; by default runs/plan-ENV, with what differs."
    ),
]


def plan(
    env_id: Annotated[
        str | None,
        typer.Argument(
            help="A Gymnasium environment's id, or a model: .npz, or .tra of PRISM and Storm."
        ),
    ] = None,
    data: Data = None,
    column: Column = None,
    policy: Policy = None,
    objective: ObjectiveOption = "mean",
    epsilon: Annotated[float, typer.Option(help="Share of random actions mixed in.")] = 0.0,
    gamma: Annotated[float, typer.Option(help="Discount, in (0, 1].")] = 0.99,
    also_gamma: AlsoGamma = None,
    map_name: MapName = None,
    env_option: EnvOption = None,
    mode: Mode = "default",
    samples: Samples = None,
    stochastic: Stochastic = False,
    normalize: Normalize = None,
    trace: Trace = PlanSettings.trace,
    exact: Exact = False,
    accuracy: Accuracy = PlanSettings.accuracy,
    memory: Annotated[float, typer.Option(min=0.01, help="GB that exact planning may use.")] = 4.0,
    time_limit: TimeLimit = "bootstrap",
    check: Check = False,
    n_basis: NBasis = None,
    sigma: Sigma = None,
    support: Range = None,
    max_iter: Annotated[
        int, typer.Option(min=1, help="Training steps with --samples.")
    ] = PlanSettings.max_iter,
    out: Out = None,
    load: Annotated[Path | None, typer.Option(help="Show a saved planner instead.")] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Policy evaluation: the whole return distribution of a policy, with risk figures and accuracy.

    Writes planner.bellman, figures and report.html into the run's folder. Run again with the same
    options to continue where it stopped.
    """
    if load is not None:
        _show(Planner.load(load), None, quiet, as_json)
        return
    if (env_id is None) == (data is None):
        raise InvalidInputError(
            "name an environment, as in: bellman plan FrozenLake-v1; or a log, as in: "
            "bellman plan --data log.csv"
        )
    if data is not None and samples is not None:
        raise InvalidInputError("--data learns from the log: leave out --samples")
    if exact and samples is not None:
        raise InvalidInputError("--exact and --samples exclude each other: give one")
    options = read_pairs(env_option or [], "--env-option")
    options |= {"map_name": map_name} if map_name else {}
    if time_limit not in ("bootstrap", "end"):
        raise InvalidInputError(f"--time-limit {time_limit}: choose bootstrap or end")
    settings = PlanSettings(
        env_id=env_id or str(data),
        policy=policy or (PlanSettings.policy if data is None else LOGGED_POLICY),
        objective=objective,
        epsilon=epsilon,
        gamma=gamma,
        also_gamma=tuple(also_gamma or ()),
        mode=mode,
        accuracy=accuracy,
        memory_gb=memory,
        time_limit=time_limit,  # pyright: ignore[reportArgumentType]
        check=check,
        n_basis=n_basis,
        sigma=sigma,
        support=support,
        samples=samples,
        max_iter=max_iter,
        trace=trace,
        stochastic=stochastic,
        normalize=normalize,
        seed=seed,
        env_options=options,
    )
    # The log is read before anything is written.
    log = None if data is None else read_log(data, _pairs(column))
    folder = out or Path("runs") / (
        _name(settings, map_name, log is not None) + ("" if log is None else f"-{log.digest()[:6]}")
    )
    _plan(settings, folder, quiet, as_json, log)


def _pairs(columns: list[str] | None) -> dict[str, str]:
    """As text: a column may be called 1."""
    pairs: dict[str, str] = {}
    for pair in columns or []:
        name, _, column = pair.partition("=")
        if not column:
            raise InvalidInputError(f"--column {pair}: give NAME=COLUMN, as in reward=r")
        pairs[name] = column
    return pairs


def _plan(
    settings: PlanSettings, folder: Path, quiet: bool, as_json: bool, log: Log | None
) -> None:
    run = RunFolder(folder, asdict(settings) | ({} if log is None else {"log": log.digest()}))
    planner = _run(settings, run, quiet, log)
    run.make()
    planner.save(folder / PLANNER_FILE)
    if planner.stock_policy is not None:
        planner.stock_policy.save(folder / POLICY_FILE)
    write_json(folder / "figures.json", planner.figures.to_json())
    report = write_plan_report(folder, planner, command_line())
    _show(planner, report, quiet, as_json)


def _name(settings: PlanSettings, map_name: str | None, from_log: bool) -> str:
    """By what differs from the defaults: different plans have different folders."""
    parts = [settings.mode, settings.policy, settings.objective, map_name or ""]
    usual = (PlanSettings.mode, PlanSettings.policy, PlanSettings.objective, "")
    given = [part for part, default in zip(parts, usual, strict=True) if part != default]
    is_file = is_model_file(settings.env_id) or from_log
    name = Path(settings.env_id).stem if is_file else settings.env_id
    # All that is not in the name: other settings get a folder of their own.
    usual_settings = PlanSettings(
        settings.env_id,
        policy=settings.policy,
        objective=settings.objective,
        mode=settings.mode,
        env_options={"map_name": map_name} if map_name else {},
    )
    if settings != usual_settings:
        text = json.dumps(asdict(settings), sort_keys=True)
        given.append(hashlib.sha256(text.encode()).hexdigest()[:6])
    return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(["plan", name, *given]))


def _run(settings: PlanSettings, run: RunFolder, quiet: bool, log: Log | None) -> Planner:
    def say(text: str) -> None:
        if not quiet:
            sys.stderr.write(f"{text}\n")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        if log is not None:
            progress = NoProgress() if quiet else RichProgress(f"plan {settings.env_id}")
            planner = plan_log(settings, log, run=run, progress=progress, report=say)
        elif settings.samples is None:
            planner = make_plan(settings, report=say)
        else:
            progress = NoProgress() if quiet else RichProgress(f"plan {settings.env_id}")
            planner = make_plan(settings, run=run, progress=progress, report=say)
    # A warning is part of the result: it is shown even to --quiet, on stderr.
    for warning in caught:
        if issubclass(warning.category, RuntimeWarning):
            sys.stderr.write(f"bellman: warning: {warning.message}\n")
    return planner


def _show(planner: Planner, report: Path | None, quiet: bool, as_json: bool) -> None:
    if planner.is_vector:
        _show_components(planner, report, quiet, as_json)
        return
    risks = risk_figures(planner)
    title = f"Return of the {planner.header.policy} policy"
    show(plan_table(planner, risks), title, quiet=quiet or as_json)
    for text in warnings_of(planner, risks):
        sys.stderr.write(f"bellman: warning: Monte Carlo disagrees. {text}\n")
    show(accuracy_table(planner.figures), "Accuracy", quiet=quiet or as_json)
    if as_json:
        print_json(planner.figures.to_json() | _risks(planner) | _described(planner, report))
    elif report is not None and not quiet:
        typer.echo(f"Report: {report}")


def _show_components(planner: Planner, report: Path | None, quiet: bool, as_json: bool) -> None:
    """Of a vector return: the risk of each component, and their correlation."""
    parts = component_planners(planner)
    for name, part in parts.items():
        show(plan_table(part, risk_figures(part)), name, quiet=quiet or as_json)
        for text in warnings_of(part, risk_figures(part)):
            sys.stderr.write(f"bellman: warning: Monte Carlo disagrees. {name}: {text}\n")
    show(correlation_table(planner), "Correlation", quiet=quiet or as_json)
    if as_json:
        found = planner.figures.to_json()
        measured = found.get("components") or [{} for _ in parts]
        each = zip(parts.items(), measured, strict=True)
        found["components"] = [m | {"name": name} | _risks(part) for (name, part), m in each]
        print_json(found | _described(planner, report))
    elif report is not None and not quiet:
        typer.echo(f"Report: {report}")


def _risks(planner: Planner) -> dict[str, Any]:
    """From each start, and of an episode where it is known."""
    episode = episode_risk(planner)
    found = {} if episode is None else {"episode": msgspec.to_builtins(episode)}
    return {"starts": msgspec.to_builtins(risk_figures(planner))} | found


def _described(planner: Planner, report: Path | None) -> dict[str, Any]:
    described = msgspec.to_builtins(planner.header)
    del described["figures"], described["starts"], described["start_rows"]
    return {"planner": described} | ({"report": str(report)} if report else {})
