"""Vector returns in the report of a plan: each component, and how they hang together."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import jax
import numpy as np

from bellman_diffusion.planning.planner import Planner
from bellman_diffusion.render.figure import COLOURS, new_figure, save_figure
from bellman_diffusion.render.page import Picture, Section, Table
from bellman_diffusion.returns.joint import JointReturn

_N_DRAWN = 1500
_MOST_PANELS = 3


def component_planners(planner: Planner) -> dict[str, Planner]:
    """The plan of each component by its name."""
    names = planner.components
    each = np.eye(len(names))
    return {name: planner.along(weights) for name, weights in zip(names, each, strict=True)}


def correlation_table(planner: Planner) -> Table:
    """Of an episode's components, predicted and in held-out episodes."""
    names, found = planner.components, planner.figures.correlation
    predicted = np.asarray(planner.joint().correlation())
    rows = []
    for i, j in combinations(range(len(names)), 2):
        seen = "" if found is None else f"{found.monte_carlo[i][j]:.3f}"
        rows.append((f"{names[i]}; {names[j]}", f"{predicted[i, j]:.3f}", seen))
    return Table(("components", "correlation", "in held-out episodes"), rows, n_names=1)


def component_sections(
    out: Path, planner: Planner, sections: Callable[[Path, Planner], list[Section]]
) -> list[Section]:
    """The joint distribution first, then the `sections` of every component."""
    picture = _draw(out / "figures" / "joint.png", planner.joint(), planner.components)
    text = (
        f"The return has {len(planner.components)} components. Correlations are those of a whole "
        "episode. Any weighted sum of the components has a plan of its own, without new training: "
        "planner.along(weights)."
    )
    caption = f"{_N_DRAWN:,} returns drawn from the joint distribution of an episode."
    found = [
        Section("Joint return of an episode", text, correlation_table(planner)),
        Section("Joint distribution", pictures=[Picture(picture, caption)]),
    ]
    for i, (name, part) in enumerate(component_planners(planner).items()):
        own = sections(out / f"component-{i}", part)
        found += [replace(section, title=f"{name}: {section.title}") for section in own]
    return found


def _draw(path: Path, joint: JointReturn, names: list[str]) -> Path:
    """The first pairs of components."""
    pairs = list(combinations(range(joint.dim), 2))[:_MOST_PANELS]
    drawn = np.asarray(joint.sample(jax.random.key(0), _N_DRAWN))
    figure = new_figure(4.4 * len(pairs), 4.0)
    for axes, (i, j) in zip(np.atleast_1d(figure.subplots(1, len(pairs))), pairs, strict=True):
        axes.plot(drawn[:, i], drawn[:, j], ".", color=COLOURS[0], alpha=0.15, markersize=5)
        axes.set(xlabel=names[i], ylabel=names[j])
    figure.suptitle("Joint return of an episode")
    return save_figure(figure, path)
