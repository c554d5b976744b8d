"""Section 5.3, cart-pole: is Bellman Diffusion faster and more stable than C51?

Two comparisons of the same algorithms on the same learner:

- `plain`: one-step targets, a hard target, a small replay, one update in ten steps (CleanRL's C51
  settings for a run of 100,000 steps); only what belongs to the return model differs.
- `best`: each algorithm with the settings that were best on other seeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bellman_diffusion.metrics.aggregate import Difference
from bellman_diffusion.paper.cartpole_cells import (
    ALGORITHMS,
    FIELD_WIDTH,
    IN_A_ROW,
    SETTINGS,
    SOLVED,
    CartCell,
    CartRow,
    SpeedUp,
    load_or_train,
)
from bellman_diffusion.paper.claims import ACCURATE, Finding, claim, known, reproduced, require
from bellman_diffusion.paper.experiment import Experiment, SeededOptions, Summary, Workplace, option
from bellman_diffusion.render.curves import draw_curves
from bellman_diffusion.render.figure import COLOURS, new_figure, save_figure
from bellman_diffusion.render.page import Picture, Section, Table, bullets, counted, shown_share

OURS, C51, PAPER = "bellman", "c51", "bellman-paper"
# Errors beyond are told by their order of magnitude alone.
_MANY = 100
# The paper's figure.
_FASTER = 1.5
# An interval over fewer says nothing.
_LEAST_SEEDS = 5


@dataclass(frozen=True)
class CartPoleOptions(SeededOptions):
    """Seeds, steps and algorithms."""

    seeds: int = option(10, "How many seeds, from --seed on.", min=1)
    steps: int = option(100_000, "Environment steps of each seed.", min=1000)
    algos: str = option(",".join(ALGORITHMS), "Which algorithms, separated by commas.")


class CartPoleSummary(Summary):
    """Rows by algorithm, in plain and in each algorithm's best settings."""

    plain: dict[str, CartRow]
    best: dict[str, CartRow]
    seeds: list[int]
    steps: int

    def rows(self, setting: str) -> dict[str, CartRow]:
        """By algorithm."""
        return self.plain if setting == "plain" else self.best

    def row(self, setting: str, algo: str) -> CartRow:
        """Of one algorithm, which a thinned run may lack."""
        return known(self.rows(setting).get(algo), algo)


def run(options: CartPoleOptions, work: Workplace) -> CartPoleSummary:
    """Train what is missing."""
    seeds, steps = list(options.all_seeds), -(-options.steps // 1000) * 1000
    names = options.chosen("algos", ALGORITHMS)
    cells = {
        setting: {algo: load_or_train(work, setting, algo, steps, seeds) for algo in names}
        for setting in SETTINGS
    }
    plain, best = ({algo: CartRow.of(cell) for algo, cell in cells[s].items()} for s in SETTINGS)
    titles = {"plain": "plain settings", "best": "each algorithm's best settings"}
    panels = {
        title: {algo: cell.curve() for algo, cell in cells[setting].items()}
        for setting, title in titles.items()
    }
    draw_curves(work.figures / "curves.png", panels, SOLVED)
    _draw_fields(work.figures / "fields.png", cells["best"])
    return CartPoleSummary(plain=plain, best=best, seeds=seeds, steps=steps)


def _draw_fields(path: Path, cells: dict[str, CartCell]) -> None:
    """A column for each algorithm; both fields at both states below each other."""
    figure = new_figure(3.1 * len(cells), 8.5)
    grid = figure.subplots(4, len(cells), squeeze=False)
    states = (("first state", (-15, 115)), ("last state before a fall", (-15, 45)))
    for column, (colour, (algo, cell)) in enumerate(zip(COLOURS, cells.items(), strict=False)):
        for number, (name, limits) in enumerate(states):
            state = cell.fields[number]
            x, density = np.array(state.x), np.array(state.density)
            upper, lower = pair = grid[2 * number : 2 * number + 2, column]
            upper.plot(x, density, color=colour)
            lower.plot(x, state.slope, color=colour)
            upper.set(ylim=(0, None), title=f"{algo}\n{name}")
            if density[(x >= limits[0]) & (x <= limits[1])].max() < 0.01 * density.max():
                said = "its mass is elsewhere"
                upper.text(0.5, 0.5, said, transform=upper.transAxes, ha="center")
            for axes in pair:
                axes.axvline(state.mean_return, color="0.4", alpha=0.35, linewidth=4, zorder=0)
                axes.set_xlim(limits)
            if column == 0:
                upper.set_ylabel("density s")
                lower.set_ylabel("slope g")
        grid[-1, column].set_xlabel("discounted return")
    save_figure(figure, path)


def _shown_steps(value: float | None) -> str:
    return "never" if value is None else f"{value:,.0f}"


def sections(summary: CartPoleSummary, figures: Path) -> list[Section]:
    """The comparison, the learning curves and the fields."""
    curves = (
        "Greedy return over steps, in plain and in each algorithm's best settings. Thin lines are "
        "seeds, thick ones the interquartile mean with its 95 % interval."
    )
    fields = (
        "Both fields of the greedy action's return, in best settings: at a start, and at the last "
        "state before the pole falls. The grey bars are the mean returns of rollouts."
    )
    pictures = [Picture(figures / "curves.png", curves), Picture(figures / "fields.png", fields)]
    return [Section("Comparison with C51", _text(summary), _table(summary), pictures)]


def _text(summary: CartPoleSummary) -> str:
    columns = bullets(
        [
            f"Steps to 475 count to the first of {IN_A_ROW} evaluations in a row.",
            "Stability is counted from an agent's first evaluation at 475 on.",
            "W1 is the mean distance of the predicted return distribution to Monte-Carlo returns from "
            "20 states of the final policy, as a share of the range of returns (100).",
            "Errors of s and g are ∫|s − s₀|/∫|s₀| and the same of g, s₀ and g₀ being the fields of "
            f"those returns, all smoothed by {FIELD_WIDTH:.0%} of the range: 2 is the error of a "
            "distribution in a quite different place.",
            "± is the standard error over seeds.",
        ]
    )
    found = bullets(
        [
            _compare(setting, algo, summary.rows(setting))
            for setting in SETTINGS
            for algo in (OURS, PAPER)
            if {C51, algo} <= summary.rows(setting).keys()
        ]
    )
    return f"""\
{counted(len(summary.seeds), "held-out seed")} (no setting was tuned on them), {summary.steps:,} steps, 20 greedy
episodes every 1,000 steps. *Plain* settings are one-step targets, a hard target network, a replay of 10,000 and one
update of 128 in ten steps, the same for all; the number of outputs and the smoothing belong to the return model and were
tuned for each on other seeds. *Best* are each algorithm's best settings on those other seeds.

{columns}

The paper's claim is "1.5 times faster and more stable than C51".

{found}"""


def _compare(setting: str, algo: str, rows: Mapping[str, CartRow]) -> str:
    ours, c51 = rows[algo], rows[C51]
    mine, its = ours.median_steps, c51.median_steps
    own = "never lasts at 475" if mine is None else f"lasts at 475 from step {mine:,.0f} on"
    other = "never" if its is None else f"from step {its:,.0f} on"
    text = f"{setting.capitalize()} settings, {algo}: the median seed {own}, C51's {other}"
    if mine is not None and its is not None:
        text += f", {ours.speed_up(c51)} as many steps"
    stable = ours.stability_gain(c51)
    if stable is None:
        return f"{text}."
    return (
        f"{text}. Below 475 after the first at it: {shown_stability(stable)} than C51's, among the "
        f"seeds that got there ({len(ours.known_relapses)}, C51 {len(c51.known_relapses)})."
    )


def shown_stability(gain: Difference) -> str:
    """In percentage points, with the standard error."""
    than = "fewer" if gain.mean >= 0 else "more"
    points = f"{100 * abs(gain.mean):.1f} ± {100 * gain.error:.1f} percentage points {than}"
    return points if gain.is_clear else f"{points} (not significant)"


def _table(summary: CartPoleSummary) -> Table:
    header = ("settings", "algorithm", f"median steps to 475 ({IN_A_ROW} times in a row)",
              "worst seed", "below 475 after the first at it", "IQM of return (95 %)",
              "W1 of predicted returns", "error of s", "error of g", "seconds")  # fmt: skip
    rows = []
    for setting in SETTINGS:
        for algo, row in summary.rows(setting).items():
            low, high = row.iqm_interval
            figures = (
                _shown_steps(row.median_steps),
                _shown_steps(row.worst_steps),
                row.shown("relapses", ".1%"),
                f"{row.iqm:.0f} ({low:.0f}–{high:.0f})",
                row.shown("return_w1", ".1%"),
                row.shown("scalar_error", ".2f" if row.scalar_error < _MANY else ".0e"),
                row.shown("gradient_error", ".2f" if row.gradient_error < _MANY else ".0e"),
                "–" if row.seconds is None else f"{row.seconds:.0f}",
            )
            rows.append((setting, algo, *figures))
    return Table(header, rows)


@claim(
    "Section 5.3, cart-pole figure",
    "Return distributions and their derivatives are accurate",
    "by eye",
)
def _accurate(summary: CartPoleSummary) -> Finding:
    ours, c51, paper = (summary.row("best", name) for name in (OURS, C51, PAPER))
    plain = summary.row("plain", OURS)
    return Finding(
        f"W1 {ours.return_w1:.1%} of the range; s off by {ours.scalar_error:.0%}, g by "
        f"{ours.gradient_error:.0%}",
        reproduced(_is_near(ours), _is_near(paper)),
        "Against Monte-Carlo returns of the final policy, in best settings (in plain ones "
        f"{plain.return_w1:.0%}, {plain.scalar_error:.0%} and {plain.gradient_error:.0%}): W1 of C51 "
        f"{c51.return_w1:.1%}, of the paper's two networks {paper.return_w1:.0%}, whose s is off by "
        f"{shown_share(paper.scalar_error)} and g by {shown_share(paper.gradient_error)}.",
    )


def _is_near(row: CartRow) -> bool:
    """False for what is not a number, too."""
    fields = row.scalar_error < ACCURATE and row.gradient_error < ACCURATE
    return fields and row.return_w1 < 0.05


@claim("Abstract, Section 5.3", "Learns faster than C51", "1.5 ×")
def _faster(summary: CartPoleSummary) -> Finding:
    """By 1.5 or more in one setting, significantly, and slower in none."""
    require(len(summary.seeds) >= _LEAST_SEEDS, f"{_LEAST_SEEDS} seeds")

    def gains(algo: str, criterion: str = "first_solved") -> dict[str, SpeedUp]:
        return {s: summary.row(s, algo).speed_up(summary.row(s, C51), criterion) for s in SETTINGS}

    ours = gains(OURS)
    faster = any(g.low > 1 and g.ratio >= _FASTER for g in ours.values())
    faster = faster and all(g.high >= 1 for g in ours.values())
    paper_too = any(g.low > 1 for g in gains(PAPER).values())
    names = {"ours": OURS, "C51": C51, "QR-DQN": "qr-dqn", "the paper's two networks": PAPER}
    medians = []
    for setting in SETTINGS:
        rows = [(said, summary.rows(setting).get(name)) for said, name in names.items()]
        steps = [
            f"{said} {_shown_steps(row.median_steps)}" for said, row in rows if row is not None
        ]
        medians.append(f"{setting}: {', '.join(steps)}")
    return Finding(
        _by_setting(ours),
        reproduced(faster, paper_too),
        f"C51's steps to {IN_A_ROW} evaluations of 475 in a row over ours, by the median of the seeds, "
        "with 95 % intervals of a bootstrap; by the first evaluation at 475, "
        f"{_by_setting(gains(OURS, 'first_reached'))}. Steps in {'; in '.join(medians)}.",
    )


def _by_setting(gains: Mapping[str, SpeedUp]) -> str:
    return "; ".join(f"{setting} settings: {gain}" for setting, gain in gains.items())


@claim("Section 5.3", "and more stably", "by eye")
def _more_stable(summary: CartPoleSummary) -> Finding:
    """Significantly fewer evaluations relapse in one setting, and significantly more in none."""
    rows = {s: [summary.row(s, name) for name in (OURS, C51, PAPER)] for s in SETTINGS}
    found = [
        known(ours.stability_gain(c51), "several seeds at 475") for ours, c51, _ in rows.values()
    ]
    clear = [gain.mean > 0 for gain in found if gain.is_clear]
    recipe_too = all(
        paper.relapses is not None and paper.relapses <= known(ours.relapses, "relapses")
        for ours, _, paper in rows.values()
    )
    shown = [f"{s}: {o.relapses:.1%}, C51 {c.relapses:.1%}" for s, (o, c, _) in rows.items()]
    networks = [
        "none got there" if p.relapses is None else f"{p.relapses:.0%}" for *_, p in rows.values()
    ]
    return Finding(
        f"evaluations below 475 after the first at it, {'; '.join(shown)}",
        reproduced(bool(clear) and all(clear), recipe_too),
        f"Over seeds they are {' and '.join(map(shown_stability, found))} than C51's; of the paper's "
        f"networks {' and '.join(networks)}.",
    )


@claim("Section 5.3", "Both can reach the maximum return in the end", "500")
def _in_the_end(summary: CartPoleSummary) -> Finding:
    ours, c51, paper = (summary.row("best", name).iqm for name in (OURS, C51, PAPER))
    return Finding(
        f"{ours:.0f}, C51 {c51:.0f}",
        reproduced(min(ours, c51) >= SOLVED, paper >= SOLVED),
        "Interquartile means of the last ten evaluations in best settings; the paper's two networks: "
        f"{paper:.0f}.",
    )


@claim(
    "Section 2, Appendix D.1",
    "Models that are not linear in the density need full trajectories",
    "argued",
)
def _linearity_is_needed(summary: CartPoleSummary) -> Finding:
    """Softmaxes over nodes are energy models, and they learn from one-step targets."""
    plain, best = (
        {name: summary.row(setting, name).iqm for name in (OURS, C51, PAPER)}
        for setting in SETTINGS
    )
    wrong = max(best[OURS], best[C51]) >= SOLVED
    return Finding(
        f"returns of softmax models by one-step targets: ours {plain[OURS]:.0f}, C51 {plain[C51]:.0f}; "
        f"by three steps {best[OURS]:.0f} and {best[C51]:.0f}",
        "claim wrong" if wrong else "reproduced",
        "A softmax over nodes is an energy model. Its targets, means of densities, are linear; "
        "cross-entropy fits the model to sampled ones without bias. The fields that are linear "
        f"themselves, the paper's two networks, reach {plain[PAPER]:.0f} and {best[PAPER]:.0f}.",
    )


EXPERIMENT = Experiment(
    name="cartpole",
    title="Cart-pole (Section 5.3)",
    about="The cart-pole experiment (Section 5.3): speed and stability next to C51 and QR-DQN.",
    options=CartPoleOptions,
    summary=CartPoleSummary,
    run=run,
    sections=sections,
    order=70,
    page="cartpole",
    claims=(_accurate, _faster, _more_stable, _in_the_end, _linearity_is_needed),
    published={"seed": 4300, "seeds": 10},
    quick={"seeds": 2, "steps": 30_000, "algos": "bellman,bellman-paper,c51"},
    thinned="two seeds of ten, 30,000 steps of 100,000, no QR-DQN",
)
