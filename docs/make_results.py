"""Write the results pages from the files under `results/`. `make docs` runs this first."""

import json
import shutil
from pathlib import Path

from bellman_diffusion.experiments.agents import CASES
from bellman_diffusion.experiments.toy import ToySettings
from bellman_diffusion.experiments.uci_cases import CASES as TABLE_CASES
from bellman_diffusion.report.ablation_report import ablation_table, ablation_verdict
from bellman_diffusion.report.bellman_report import (
    chain_table,
    frozenlake_table,
    frozenlake_verdict,
    linearity_table,
    planning_table,
    planning_text,
    treasure_table,
    verdict,
)
from bellman_diffusion.report.cartpole_report import cartpole_table, cartpole_verdict
from bellman_diffusion.report.convergence_report import (
    convergence_table,
    convergence_verdict,
    errors_table,
    errors_verdict,
)
from bellman_diffusion.report.environments_report import cliff_table, environments_table
from bellman_diffusion.report.equivalence_report import equivalence_table, equivalence_text
from bellman_diffusion.report.ledger import ledger_rows, ledger_table, verdict_counts
from bellman_diffusion.report.mnist_report import mnist_table, mnist_verdict
from bellman_diffusion.report.paper_report import read_results
from bellman_diffusion.report.tabular_report import tabular_table, tabular_verdict
from bellman_diffusion.report.toy_report import model_names, toy_table
from bellman_diffusion.report.usefulness_report import usefulness_table, usefulness_text

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
# Tables take the room of the page's own contents.
WIDE = "---\nhide: [toc]\n---\n\n"


def markdown_table(header, rows) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def toy_page() -> str:
    """Section 5.1."""
    summary = json.loads((RESULTS / "toy" / "toy.json").read_text())
    settings, claim = ToySettings(), summary["score_claim"]
    score, paper = summary["mixture"]["score"], summary["uniform"]["paper"]
    verdict = "holds" if claim["holds"] else "does not hold"
    reason = (
        "The weights come from where the paths start, not from the data. It is the single noise level "
        "that fails, not the score: with many noise levels, the default preset's weights are "
        f"{_weights(summary['mixture']['weights'])}."
        if claim["holds"]
        else ""
    )
    lost = (
        f"On the disjoint uniform {paper['lost']:.0%} of the paths of the paper's recipe (`paper`) are lost: its "
        "loss does not bound g off the data's support (see [the mathematics](mathematics.md))."
        if paper["lost"] > 0.01
        else ""
    )
    return f"""{WIDE}# Synthetic sets (Section 5.1)

Made by `make reproduce` on two CPU cores. Means over seeds; {settings.n_train:,} training points. W1 is exact, between
{settings.n_compare:,} samples and as many fresh points; the floor is between fresh and fresh points. "Lost" are paths that
were not finite or left the data's box; W1 is not defined where a path is not finite. The paper gives no figures for these
sets, only pictures.

`default` is our preset, `paper` the paper's recipe, `score` a score model of the same size at one noise level.

{_section("toy", summary)}

**The paper's claim** that {claim["claim"]} **{verdict}** for a model at one noise level: its weights on the mixture
(true 0.45, 0.45, 0.10) are {_weights(score["weights"])} from a uniform start and {_weights(score["weights_normal_start"])}
from a normal one. {reason}

{lost}
"""


def _section(name: str, summary: dict) -> str:
    """A run's command, table and pictures."""
    table, seeds = toy_table(summary), summary["seeds"]
    models = ",".join(model_names(summary))
    command = f"bellman reproduce toy --seed {seeds[0]} --seeds {len(seeds)} --models {models}"
    parts = [f"```console\n$ {command} --out results/{name}\n```"]
    return "\n\n".join([*parts, _table(table), _pictures(name)])


def planning_page() -> str:
    """Appendix D and what belongs to it."""
    lake, lines, chain, treasure, plans = (
        json.loads((RESULTS / name / f"{name}.json").read_text())
        for name in ("frozenlake", "linearity", "chain", "treasure", "planning")
    )
    return f"""{WIDE}# Planning (Sections 2 and 5.3, Appendix D)

Made by `make reproduce` on two CPU cores.

## The maze figure

{_command("frozenlake")}

{frozenlake_verdict(lake)} Dynamic programming to the fixed point on slippery FrozenLake 4×4 under the optimal policy,
γ = {lake["gamma"]}, every state's law against the exact one, both smoothed by σ = {lake["sigma"]}:

{_table(frozenlake_table(lake))}

{_pictures("frozenlake")}

## From transitions

{_command("planning", f"--seed {plans['seeds'][0]} --seeds {len(plans['seeds'])}")}

{planning_text(plans)}

{_table(planning_table(plans))}

## Linearity

{_command("linearity")}

Each kind of model starts from the exact law and is backed up by averaging over what follows. {verdict(lines)}

{_table(linearity_table(lines))}

{_pictures("linearity")}

## The cost of trajectories

{_command("chain")}

{verdict(chain)}

{_table(chain_table(chain))}

{_pictures("chain")}

## Vector returns

{_command("treasure")}

A random walk on a 4×4 grid with two kinds of treasure. W1 relative to each return's range, against
{treasure["n_episodes"]:,} simulated episodes, whose correlation is {treasure["correlation_monte_carlo"]:.3f}.

{_table(treasure_table(treasure))}

{_pictures("treasure")}
"""


def cartpole_page() -> str:
    """Section 5.3, cart-pole."""
    path = RESULTS / "cartpole" / "cartpole.json"
    if not path.exists():
        return "# Cart-pole\n\nNo figures are published for this release; `bellman reproduce cartpole` makes them.\n"
    summary = json.loads(path.read_text())
    seeds = summary["seeds"]
    return f"""{WIDE}# Cart-pole (Section 5.3)

{_command("cartpole", f"--seed {seeds[0]} --seeds {len(seeds)} --steps {summary['steps']}")}

{len(seeds)} seeds that nothing was chosen on, {summary["steps"]:,} steps, 20 greedy episodes every 1,000 steps. *Plain* settings are
one-step targets, a hard target, a replay of 10,000 and one update of 128 in ten steps, the same for all; the number of
outputs and the smoothing belong to the return model and were chosen for each on other seeds. *Best* are each algorithm's best
settings on those other seeds. Late evaluations are those after 25,000 steps. W1 is the mean distance of the predicted
return law to Monte-Carlo returns from 20 states of the final policy, in shares of the range of returns. The seconds are
those of that run, on two cores that had other work beside; [Speed](results-speed.md) compares.

{_table(cartpole_table(summary))}

**The paper's claim** is "1.5 times faster and more stable than C51". {cartpole_verdict(summary)}

{_pictures("cartpole")}
"""


def tables_page() -> str:
    """Section 5.2, Appendix F.2, and train on synthetic."""
    parts = [_table_1(), _mushroom(), _ablation(), _usefulness()]
    return f"""{WIDE}# Tables (Section 5.2, Appendix F.2)

Made by `make reproduce` on two CPU cores, on seeds that nothing was chosen on.

{"".join(parts)}"""


def _table_1() -> str:
    summary = _published("tabular")
    if summary is None:
        return _unpublished("Table 1", "tabular")
    return f"""## Table 1

{_command("tabular", _seeds(summary) + _tables(summary))}

A fifth of the rows is held out for the figures; of the others an eighth says when to stop. W1 is exact, on columns in
standard deviations, between held-out rows and as many synthetic ones; the floor is between held-out rows and as many
training rows. Copying: the share of synthetic rows nearer to a training row than to a held-out one, of as many of each;
0.5 is right. Equal rows of measurements are kept on one side of the split, and counted once for copying. Split by
subject, the held-out rows are those of other people: there any model of the training people is nearer to these, and the
share says nothing of copying.

The paper says neither which columns it took nor how they were scaled, so its distances are not in our units: only its
order of the models can be compared. Our columns are listed in `bellman_diffusion.data.uci`, with the rule behind them.
*Stabilised* adds fresh noise of 0.3 standard deviations to the points of the paper's losses, and nothing else; *as
written* is one seed (see [the mathematics](mathematics.md)).

{tabular_verdict(summary)}

{_table(tabular_table(summary))}

{_pictures("tabular")}

"""


def _mushroom() -> str:
    """Mushroom with the present settings, on seeds of its own."""
    path = RESULTS / "mushroom" / "tabular.json"
    if not path.exists():
        return ""
    summary = json.loads(path.read_text())
    return f"""### Mushroom again

Mushroom's rows above were made before tables of categories got their present settings (each noisy row is compared with
2,048 clean ones; that was chosen on seeds 3 and 5, after the rows above had been seen). With them, on other seeds:

```console
$ bellman reproduce tabular {_seeds(summary)}{_tables(summary)} --out results/mushroom
```

{_table(tabular_table(summary))}

"""


def _tables(summary: dict) -> str:
    """The tables of a run that did not have all."""
    names = [name for name in TABLE_CASES if name in summary]
    return "" if len(names) == len(TABLE_CASES) else " --tables " + ",".join(names)


def _ablation() -> str:
    summary = _published("ablation")
    if summary is None:
        return _unpublished("Ablation", "ablation")
    return f"""## Ablation

{_command("ablation", _seeds(summary))}

{ablation_verdict(summary)}

{_table(ablation_table(summary))}

{_pictures("ablation")}

"""


def _usefulness() -> str:
    summary = _published("usefulness")
    if summary is None:
        return _unpublished("Train on synthetic, test on real", "usefulness")
    return f"""## Train on synthetic, test on real

{_command("usefulness", _seeds(summary))}

{usefulness_text(summary)}

{_table(usefulness_table(summary))}
"""


def _published(name: str) -> dict | None:
    path = RESULTS / name / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _unpublished(title: str, name: str) -> str:
    return f"## {title}\n\nNo figures are published for this release; `bellman reproduce {name}` makes them.\n\n"


def claims_page() -> str:
    """The ledger."""
    results = read_results(RESULTS)
    rows = ledger_rows(results)
    counts = ", ".join(f"{n} {name}" for name, n in verdict_counts(rows).items())
    return f"""{WIDE}# The paper's claims

Every claim of the paper with what we measured: {counts}. *Better* means that our figure is better than what the paper shows, or
that our default does what the paper's recipe, as it is written, does not. *Claim wrong* means that no setting could make it
right. `bellman reproduce all` makes all of it, with one report; `--quick` a thinned version.

{_table(ledger_table(results))}
"""


def mnist_page() -> str:
    """Appendix F.1."""
    summary = _published("mnist")
    if summary is None:
        return f"# Digits (Appendix F.1)\n\n{_unpublished('MNIST', 'mnist')}"
    return f"""{WIDE}# Digits (Appendix F.1)

{_command("mnist", _seeds(summary))}

A convolutional autoencoder codes the 60,000 training digits by 16 numbers; our model and a DDPM learn the law of the same
codes. A classifier, trained on the same digits, compares 10,000 images of each with the 10,000 test digits: Fréchet distance of
its features, share of images that it is at least 90 % sure of, largest error of a digit's share. The floor is that of 10,000
training digits. Ours learns the digit together with the code, as a column of the same table; the DDPM learns the codes
alone. The comparison leans our way: the weight of the divergence (one half) and the sampler's steps were tried with our model
on another autoencoder and seed, the DDPM has its settings for tables untuned, and a smaller divergence makes the prior worse.
"Digits asked for" is the share of images drawn for a digit (`--label`) that the classifier takes for it.
{mnist_verdict(summary)} All of it took {summary["seconds"] / 60:.0f} minutes.

{_table(mnist_table(summary))}

{_pictures("mnist")}
"""


def theorems_page() -> str:
    """Propositions 3.1 and 3.2, Theorems 4.1 and 4.2."""
    losses = json.loads((RESULTS / "equivalence" / "equivalence.json").read_text())
    summary = json.loads((RESULTS / "convergence" / "convergence.json").read_text())
    return f"""{WIDE}# Propositions and theorems

## Field matching (Propositions 3.1 and 3.2)

{_command("equivalence")}

{equivalence_text(losses)}

{_table(equivalence_table(losses))}

## The dynamics

{_command("convergence")}

One dimension, exact fields, and no sampling: the Fokker–Planck equation of $dx = p'dt + \\sqrt{{p}}\\,dw$ on a grid.

### Convergence (Theorem 4.1)

{convergence_verdict(summary)}

{_table(convergence_table(summary))}

![KL to the target over time](pictures/convergence.png)

### Errors of the fields (Theorem 4.2)

A wave of the given height is added to both fields of ½(1 + 0.9 cos πx). {errors_verdict(summary)}

{_table(errors_table(summary))}

![W2 to the target over the error of the fields](pictures/errors.png)
"""


def _seeds(summary: dict) -> str:
    return f"--seed {summary['seeds'][0]} --seeds {len(summary['seeds'])}"


def agents_page() -> str:
    """Agents on other environments."""
    path = RESULTS / "agents" / "agents.json"
    if not path.exists():
        return "# Other environments\n\nNo figures are published for this release; `bellman reproduce agents` makes them.\n"
    summary = json.loads(path.read_text())
    seeds = summary["seeds"]
    envs = ",".join(name for name in CASES if name in summary)
    return f"""{WIDE}# Agents on other environments

{_command("agents", f"--seed {seeds[0]} --seeds {len(seeds)} --envs {envs}")}

{len(seeds)} seeds that nothing was chosen on, with the registered settings: greedy episodes at the end of training.

{_table(environments_table(summary))}

## A careful agent

On the windy cliff the short way has the better mean, the long way the better worst tenth. 4,000 greedy episodes of each
seed.

{_table(cliff_table(summary))}

## Learning

Thin lines are seeds; thick ones the interquartile mean with its 95 % interval.

{_pictures("agents")}
"""


def _command(name: str, options: str = "") -> str:
    return f"```console\n$ bellman reproduce {name} {options + ' ' if options else ''}--out results/{name}\n```"


def _table(table) -> str:
    return markdown_table(table.header, table.rows)


def _pictures(name: str) -> str:
    """Copy a run's pictures beside the pages and show them."""
    shown = []
    for picture in sorted((RESULTS / name / "figures").glob("*.png")):
        shutil.copy(picture, DOCS / "pictures" / picture.name)
        shown.append(f"![{picture.stem}](pictures/{picture.name})")
    return "\n\n".join(shown)


def speed_page() -> str:
    """`make bench`."""
    if not (RESULTS / "bench.json").exists():
        return "# Speed\n\nNo measurement is published for this release; `make bench` makes one.\n"
    result = json.loads((RESULTS / "bench.json").read_text())
    header = ("job", "width", "points", "steps/s", "× eager PyTorch", "× diffrax", "× diffrax, unsafe path", "our share of the "
              "matrix rate", "eager PyTorch's share")  # fmt: skip
    rows = [
        (
            row["job"],
            row["width"],
            row["points"],
            f"{row['steps_per_second']:.0f}",
            f"{row['ratio_to_eager_torch']:.1f}",
            f"{row['ratio_to_diffrax']:.1f}" if "ratio_to_diffrax" in row else "",
            f"{row['ratio_to_diffrax_unsafe']:.1f}" if "ratio_to_diffrax" in row else "",
            f"{row['share_of_matrix_rate']:.0%}",
            f"{row['eager_share_of_matrix_rate']:.0%}",
        )
        for row in result["rows"]
    ]
    return f"""{WIDE}# Speed

Made by `{result["command"]}` on two CPU cores, everything in one run. "Points" are a training batch or the sampler's
paths; the networks are the paper's two, with three hidden layers. PyTorch runs eagerly, with one thread or all,
whichever is faster; diffrax solves the same SDE with its Euler solver, and
`VirtualBrownianTree` (its usual path) or `UnsafeBrownianPath`. The matrix rate
is that of a 2048 × 2048 float32 product on this machine: {result["matrix_rate"] / 1e9:.0f} GFLOP/s.

{markdown_table(header, rows)}

{_agents_speed()}{_tables_speed()}
Where eager PyTorch already runs at a large share of the matrix rate, no program can be many times faster; where calls
cost more than arithmetic, one compiled program is.
"""


def _agents_speed() -> str:
    """Agents against peers."""
    path = RESULTS / "bench-control.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    rates = result["steps_per_second"]
    rows = [
        (name, f"{rate:,.0f}", f"{rate / rates['eager PyTorch C51']:.1f}")
        for name, rate in rates.items()
    ]
    solved = ", ".join(
        f"{name} {'never' if s is None else f'{s:.0f} s'}"
        for name, s in result["solved_seconds"].items()
    )
    return f"""## Agents

CartPole on one core with CleanRL's settings of C51: one environment, one update of 128 in ten steps, hidden layers of 120
and 84, 101 outputs. No evaluation is counted.

{markdown_table(("agent", "steps/s", "× eager PyTorch C51"), rows)}

Ten seeds on two cores take {result["ten_seeds_over_one"]:.1f} times as long as one seed on one. Time to a solved CartPole (475, median
of three seeds, each with its tuned settings; ours with compilation and judgements included): {solved}.

"""


def _tables_speed() -> str:
    """Tables, where nothing is compared."""
    path = RESULTS / "bench-tables.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    few, many = result["step_seconds"].items()
    return f"""## Tables

Abalone, all nine columns, two cores: a default fit takes {result["fit_seconds"]:.0f} s with compilation and the choice of a transform,
100,000 rows {result["sample_seconds"]:.0f} s. A table of {result["rows"]:,} rows × {result["columns"]} columns takes {result["extra_gib"]:.1f} GiB beyond the table itself; a training step
takes {1000 * few[1]:.1f} ms with {int(few[0]):,} rows and {1000 * many[1]:.1f} ms with {int(many[0]):,}.

"""


def _weights(values) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


if __name__ == "__main__":
    (DOCS / "pictures").mkdir(exist_ok=True)
    (DOCS / "results-claims.md").write_text(claims_page())
    (DOCS / "results-mnist.md").write_text(mnist_page())
    (DOCS / "results-toy.md").write_text(toy_page())
    (DOCS / "results-tables.md").write_text(tables_page())
    _pictures("convergence")
    (DOCS / "results-theorems.md").write_text(theorems_page())
    (DOCS / "results-planning.md").write_text(planning_page())
    (DOCS / "results-cartpole.md").write_text(cartpole_page())
    (DOCS / "results-agents.md").write_text(agents_page())
    (DOCS / "results-speed.md").write_text(speed_page())
