"""Pictures and tables of calibration: predicted distributions next to held-out returns."""

from pathlib import Path

import numpy as np

from bellman_diffusion.planning.evaluation import QUANTILE_LEVELS, HeldOutEvaluation
from bellman_diffusion.render.figure import COLOURS, new_figure, save_figure
from bellman_diffusion.render.page import Picture, Section, Table


def calibration_sections(out: Path, found: HeldOutEvaluation) -> list[Section]:
    """The probability integral transform, and groups of states with similar predicted means."""
    text = (
        f"{found.n_returns:,} held-out returns of {found.n_episodes:,} episodes. The probability "
        "integral transform is the predicted probability of a lower return than the one that came. If "
        "the predictions are right, it is uniform; a hump in the middle means predictions that are too "
        "wide, peaks at the ends mean predictions that are too narrow. Returns of one episode overlap, "
        "so deviations by a few percent can be chance. "
        f"{found.coverage_90:.1%} of the returns lie in the predicted 90 % intervals."
    )
    picture = Picture(
        _draw(out / "figures" / "calibration.png", found),
        "Left: the transform of held-out returns. Right: quantiles of groups of states.",
    )
    header = ("group", "returns", "mean", "predicted", "CVaR 10 %", "predicted", "W1")
    rows = [
        (str(i + 1), f"{g.n:,}", *(f"{v:.4g}" for v in (
            g.mean, g.mean_predicted, g.cvar_10, g.cvar_10_predicted, g.w1)))
        for i, g in enumerate(found.groups)
    ]  # fmt: skip
    return [
        Section("Calibration", text, pictures=[picture]),
        Section(
            "Groups of states",
            "States by their predicted mean, from the lowest to the highest.",
            Table(header, rows, n_names=1),
        ),
    ]


def _draw(path: Path, found: HeldOutEvaluation) -> Path:
    figure = new_figure(10, 3.8)
    left, right = figure.subplots(1, 2)
    n = len(found.pit_histogram)
    left.bar((np.arange(n) + 0.5) / n, found.pit_histogram, width=0.94 / n, color=COLOURS[0])
    left.axhline(1 / n, color="black", linestyle=":", label="uniform")
    left.set(xlabel="probability integral transform", ylabel="share of returns", xlim=(0, 1))
    left.legend()
    for i, group in enumerate(found.groups):
        colour = COLOURS[i % len(COLOURS)]
        right.plot(QUANTILE_LEVELS, group.quantiles_predicted, color=colour, label=f"group {i + 1}")
        right.plot(QUANTILE_LEVELS, group.quantiles, "o", color=colour, markersize=4)
    right.set(
        xlabel="probability level", ylabel="return", title="lines: predicted; points: held-out"
    )
    right.legend()
    return save_figure(figure, path)
