"""Sections 5.1 and 5.2 and Appendix F: synthetic sets, tables, digits."""

from bellman_diffusion.experiments.toy import ToySettings
from bellman_diffusion.report.ablation_report import ablation_table, ablation_verdict
from bellman_diffusion.report.mnist_report import mnist_table, mnist_verdict
from bellman_diffusion.report.tabular_report import tabular_table, tabular_verdict
from bellman_diffusion.report.toy_report import toy_introduction, toy_table
from bellman_diffusion.report.usefulness_report import usefulness_table, usefulness_text
from pages.common import WIDE, command, pictures, published, seeds, table, unpublished


def toy_page() -> str:
    """Section 5.1."""
    summary = published("toy")
    if summary is None:
        return unpublished("# Synthetic sets (Section 5.1)", "toy")
    settings, paper = ToySettings(), summary["uniform"]["paper"]
    by_seed = ", ".join(f"{cell['lost']:.0%}" for cell in paper["per_seed"])
    lost = (
        f"On the disjoint uniform {by_seed} of the paths of the paper's recipe are lost, by seed: its loss does not bound g off "
        "the data's support (see [the mathematics](mathematics.md)). The pictures are of the first seed."
        if paper["lost"] > 0.01
        else ""
    )
    return f"""{WIDE}# Synthetic sets (Section 5.1)

{command("toy", seeds(summary))}

{toy_introduction(summary)}

{lost}

{settings.n_train:,} training points; W1 is exact, on {settings.n_compare:,} points of each side. The paper gives no figures for these
sets, only pictures.

{table(toy_table(summary))}

{pictures("toy")}
"""


def tables_page() -> str:
    """Section 5.2, Appendix F.2, and train on synthetic."""
    parts = [_table_1(), _ablation(), _usefulness()]
    return f"""{WIDE}# Tables (Section 5.2, Appendix F.2)

On seeds that nothing was chosen on.

{"".join(parts)}"""


def _table_1() -> str:
    summary = published("tabular")
    if summary is None:
        return unpublished("## Table 1", "tabular")
    return f"""## Table 1

{command("tabular", seeds(summary))}

A fifth of the rows is held out for the figures; of the others an eighth says when to stop. W1 is exact, on columns in
standard deviations, between held-out rows and as many synthetic ones; the floor is between held-out rows and as many
training rows. Copying: the share of synthetic rows nearer to a training row than to a held-out one, of as many of each;
0.5 is right. Equal rows of measurements are kept on one side of the split, and counted once for copying. Split by
subject, the held-out rows are those of other people: there any model of the training people is nearer to these, and the
share says nothing of copying.

The paper says neither which columns it took nor how they were scaled, so its distances are not in our units: only its
order of the models can be compared. Our columns are listed in `bellman_diffusion.data.uci`, with the rule behind them.
The time is that of this run, which had other work beside it for a while. *Stabilised* adds fresh noise of 0.3 standard deviations to the points of the paper's losses, and nothing else; *as
written* is one seed (see [the mathematics](mathematics.md)).

{tabular_verdict(summary)}

{table(tabular_table(summary))}

{pictures("tabular")}

"""


def _ablation() -> str:
    summary = published("ablation")
    if summary is None:
        return unpublished("## Ablation", "ablation")
    return f"""## Ablation

{command("ablation", seeds(summary))}

{ablation_verdict(summary)}

{table(ablation_table(summary))}

{pictures("ablation")}

"""


def _usefulness() -> str:
    summary = published("usefulness")
    if summary is None:
        return unpublished("## Train on synthetic, test on real", "usefulness")
    return f"""## Train on synthetic, test on real

{command("usefulness", seeds(summary))}

{usefulness_text(summary)}

{table(usefulness_table(summary))}
"""


def mnist_page() -> str:
    """Appendix F.1."""
    summary = published("mnist")
    if summary is None:
        return unpublished("# Digits (Appendix F.1)", "mnist")
    return f"""{WIDE}# Digits (Appendix F.1)

{command("mnist", seeds(summary))}

A convolutional autoencoder codes 50,000 training digits by 16 numbers; our model and a DDPM learn the law of the same
codes, each together with the digit. A classifier, trained on the same digits, compares 10,000 images of each with the 10,000
test digits: Fréchet distance of its features, share of images that it is at least 90 % sure of, largest error of a digit's
share. The floor is that of the other 10,000 training digits, which neither has seen. The weight of the autoencoder's
divergence was tried with our model, the DDPM's settings for it, both on another autoencoder and seed. "Digits asked for" is the share of images drawn for a digit (`--label`) that the classifier
takes for it. {mnist_verdict(summary)}

{table(mnist_table(summary))}

{pictures("mnist")}
"""
