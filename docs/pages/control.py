"""Sections 2 and 5.3 and Appendix D: planning, cart-pole, agents on other environments."""

from bellman_diffusion.experiments.agents import CASES
from bellman_diffusion.report.bellman_report import (
    chain_table,
    chain_verdict,
    frozenlake_table,
    frozenlake_verdict,
    linearity_table,
    linearity_verdict,
    planning_table,
    planning_text,
    treasure_table,
)
from bellman_diffusion.report.cartpole_report import (
    ABOUT_FIGURES,
    cartpole_table,
    cartpole_verdict,
)
from bellman_diffusion.report.environments_report import cliff_table, environments_table
from pages.common import WIDE, command, pictures, published, seeds, table, unpublished


def planning_page() -> str:
    """Appendix D and what belongs to it."""
    names = ("frozenlake", "linearity", "chain", "treasure", "planning")
    found = [published(name) for name in names]
    if None in found:
        return unpublished("# Planning", names[found.index(None)])
    lake, lines, chain, treasure, plans = (summary or {} for summary in found)
    return f"""{WIDE}# Planning (Sections 2 and 5.3, Appendix D)

## The maze figure

{command("frozenlake")}

{frozenlake_verdict(lake)} Dynamic programming to the fixed point on slippery FrozenLake 4×4 under the optimal policy,
and, in the last rows, fields learned from transitions; γ = {lake["gamma"]}, every state's law against the exact one, both
smoothed by σ = {lake["sigma"]}:

{table(frozenlake_table(lake))}

{pictures("frozenlake")}

## From transitions

{command("planning", seeds(plans))}

{planning_text(plans)}

{table(planning_table(plans))}

## Linearity

{command("linearity")}

Each kind of model starts from the exact law and is backed up by averaging over what follows. {linearity_verdict(lines)}

{table(linearity_table(lines))}

{pictures("linearity")}

## The cost of trajectories

{command("chain")}

{chain_verdict(chain)}

{table(chain_table(chain))}

{pictures("chain")}

## Vector returns

{command("treasure")}

A random walk on a 4×4 grid with two kinds of treasure. W1 relative to each return's range, against
{treasure["n_episodes"]:,} simulated episodes, whose correlation is {treasure["correlation_monte_carlo"]:.3f}.

{table(treasure_table(treasure))}

{pictures("treasure")}
"""


def cartpole_page() -> str:
    """Section 5.3, cart-pole."""
    summary = published("cartpole")
    if summary is None:
        return unpublished("# Cart-pole (Section 5.3)", "cartpole")
    return f"""{WIDE}# Cart-pole (Section 5.3)

{command("cartpole", seeds(summary))}

{len(summary["seeds"])} seeds that nothing was chosen on, {summary["steps"]:,} steps, 20 greedy episodes every 1,000 steps. *Plain* settings are
one-step targets, a hard target, a replay of 10,000 and one update of 128 in ten steps, the same for all; the number of
outputs and the smoothing belong to the return model and were chosen for each on other seeds. *Best* are each algorithm's best
settings on those other seeds. The seconds are those of this run, with other work beside; [Speed](results-speed.md) compares.

{ABOUT_FIGURES}

{table(cartpole_table(summary))}

**The paper's claim** is "1.5 times faster and more stable than C51".

{cartpole_verdict(summary)}

{pictures("cartpole")}
"""


def agents_page() -> str:
    """Agents on other environments."""
    summary = published("agents")
    if summary is None:
        return unpublished("# Agents on other environments", "agents")
    envs = ",".join(name for name in CASES if name in summary)
    return f"""{WIDE}# Agents on other environments

{command("agents", f"{seeds(summary)} --envs {envs}")}

{len(summary["seeds"])} seeds that nothing was chosen on, with the registered settings: greedy episodes at the end of training.

{table(environments_table(summary))}

## A careful agent

On the windy cliff the short way has the better mean, the long way the better worst tenth. 4,000 greedy episodes of each
seed.

{table(cliff_table(summary))}

## Learning

{pictures("agents")}
"""
