"""All experiments of the paper, in its order, with the options of the full and of the quick run.

The seeds are those of the published results; nothing was chosen on them.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Part:
    """One experiment: the name of its command and what it is called with."""

    name: str
    title: str
    options: dict[str, Any] = field(default_factory=dict)
    quick: dict[str, Any] = field(default_factory=dict)
    """What the quick run changes."""
    thinned: str = ""
    """What that leaves out, in words."""

    def options_of(self, quick: bool, shift: int) -> dict[str, Any]:
        """The options of a run, with all seeds moved by `shift`."""
        options = self.options | (self.quick if quick else {})
        return options | {"seed": options.get("seed", 0) + shift}


PARTS = (
    Part("linearity", "Linearity (Section 2)"),
    Part("equivalence", "Field matching (Propositions 3.1 and 3.2, Theorem B.1)"),
    Part("convergence", "The dynamics (Theorems 4.1 and 4.2)"),
    Part(
        "toy",
        "Synthetic sets (Section 5.1)",
        {"seed": 300, "seeds": 3},
        {"seeds": 1, "max_iter": 2000},
        "one seed of three, 2,000 training steps",
    ),
    Part(
        "tabular",
        "Tables (Section 5.2, Table 1)",
        {"seed": 1300, "seeds": 5},
        {
            "seeds": 1,
            "tables": "abalone,wine",
            "models": "bellman,ddpm,stabilised,interpolation",
            "max_iter": 1500,
        },
        "two tables of five, none split by subject or whole, four models of eight, one seed of five, "
        "1,500 training steps",
    ),
    Part(
        "frozenlake",
        "The maze (Section 5.3)",
        {"seed": 0, "seeds": 3},
        {"seeds": 1},
        "one seed of three of the learned planners",
    ),
    Part(
        "cartpole",
        "Cart-pole (Section 5.3)",
        {"seed": 4300, "seeds": 10},
        {"seeds": 2, "steps": 30_000, "algos": "bellman,bellman-paper,c51"},
        "two seeds of ten, 30,000 steps of 100,000, no QR-DQN",
    ),
    Part(
        "chain",
        "Trajectories (Appendix D.1)",
        {},
        {"largest": 64},
        "mazes of up to 64 blocks of 512",
    ),
    Part(
        "mnist",
        "Digits (Appendix F.1)",
        {"seed": 900, "seeds": 3},
        {"seeds": 1, "vae_steps": 1000, "latent_steps": 1000, "classifier_steps": 800},
        "one seed of three, a sixth to a quarter of the training steps",
    ),
    Part(
        "ablation",
        "Ablation (Appendix F.2)",
        {"seed": 1100, "seeds": 3},
        {"seeds": 1, "tables": "abalone", "max_iter": 300},
        "one table of two, one seed of three, 300 training steps",
    ),
)
