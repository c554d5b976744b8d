"""Tables and the page of a training run."""

from pathlib import Path

from bellman_diffusion.agents.train import Training
from bellman_diffusion.metrics.aggregate import iqm, iqm_interval
from bellman_diffusion.render.curves import draw_curves
from bellman_diffusion.render.page import Picture, Section, Table, write_page


def training_table(training: Training) -> Table:
    """One row a seed, and their interquartile mean."""
    rows = [
        (
            f"seed {row.seed}",
            f"{row.greedy_return:.4g}",
            "–" if row.first_solved_step is None else f"{row.first_solved_step:,}",
        )
        for row in training.summary()
    ]
    last = training.returns[-1]
    if len(last) > 1:
        low, high = iqm_interval(last)
        rows.append((f"IQM of {len(last)} seeds", f"{iqm(last):.4g} ({low:.4g}–{high:.4g})", ""))
    return Table(("agent", "greedy return", "first solved at step"), rows, n_names=1)


def training_sections(folder: Path, training: Training) -> list[Section]:
    """The parts of the report: figures of each seed, and their curves."""
    config = training.config
    name = f"{config.env_id}, {config.algo}"
    curve = (training.steps, training.returns)
    picture = draw_curves(
        folder / "figures" / "curves.png", {name: {config.algo: curve}}, training.spec.solved_at
    )
    text = (
        f"{config.eval_episodes} greedy episodes every {config.eval_every:,} steps; "
        f"{training.steps_per_second:,.0f} steps/s over all seeds; {training.compile_seconds:.1f} s of "
        "compilation."
    )
    return [
        Section(name, text, training_table(training)),
        Section("Learning", pictures=[Picture(picture, "Return of greedy episodes over steps")]),
    ]


def write_training_report(folder: Path, training: Training, command: str) -> Path:
    """Draw the curves and write `report.html`."""
    config = training.config
    settings = [(key, str(value)) for key, value in config.to_json().items()]
    sections = [
        *training_sections(folder, training),
        Section("Settings", table=Table(("setting", "value"), settings, n_names=1)),
    ]
    title = f"Training: {config.env_id}, {config.algo}"
    return write_page(folder / "report.html", title, command, sections)
