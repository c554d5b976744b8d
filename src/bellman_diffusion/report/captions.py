"""What the pictures of the experiments show, in the paper's order: for reports and the docs' pages."""

from pathlib import Path

_TOY = {
    "default": "{}: our default. Data; scalar field and density; gradient field; samples, beside those "
    "of score models where these were run.",
    "paper": "{}: the paper's recipe as written. Data, scalar field, gradient field, samples.",
}
_SETS = {"uniform": "Disjoint uniform", "mixture": "Unbalanced mixture", "moons": "Two moons"}
_MODES = {
    "default": "our default, 41 functions",
    "paper": "the paper's plain L2 update, 41 functions",
    "c51": "C51, 41 atoms",
}
_LINES = "Thin lines are seeds, thick ones the interquartile mean with its 95 % interval."

CAPTIONS = {
    "linearity": "One backup of each kind of model in the worst state, and the mean W1 over all states "
    "as backups go on.",
    "convergence": "KL to the target over time, from the same start.",
    "errors": "W2 to the target over the error of the fields.",
    **{
        f"{name}-{model}": text.format(title)
        for name, title in _SETS.items()
        for model, text in _TOY.items()
    },
    "tabular": "W1 over its floor; hollow: the model's rows are nearer to rows it learned from.",
    **{
        f"frozenlake-{mode}": f"A whole trajectory in the maze: state, gradient field and scalar field "
        f"(grey: exact), by {said}."
        for mode, said in _MODES.items()
    },
    "curves": f"Greedy return over steps, in plain and in each algorithm's best settings. {_LINES}",
    "fields": "Both fields of the greedy action's return, in best settings: at a start, and at the "
    "last state before the pole falls. The grey bars are the mean returns that follow.",
    "chain": "Environment steps to learn a maze of N blocks.",
    "mnist-bellman": "Our model: the first 225 images drawn, none chosen.",
    "mnist-ddpm": "DDPM on the same codes.",
    "mnist-prior": "The autoencoder's prior.",
    "mnist-nearest": "Our images above the training images nearest to them.",
    "ablation": "W1 over its floor against ε (one slice) and against the number of slices (ε = 0.5), "
    "with standard errors.",
    "treasure": "The joint law of two returns.",
    "learning": f"Greedy return over steps. {_LINES}",
}


def captioned(folder: Path) -> list[tuple[Path, str]]:
    """A run's pictures in the paper's order, each with what it shows."""
    order = list(CAPTIONS)
    found = [(file, _name(file)) for file in sorted(folder.glob("*.png"))]
    return [
        (file, CAPTIONS.get(name, file.stem.replace("-", " ")))
        for file, name in sorted(found, key=lambda f: order.index(f[1]) if f[1] in order else 0)
    ]


def caption(picture: Path) -> tuple[Path, str]:
    """One picture with what it shows."""
    return picture, CAPTIONS[_name(picture)]


def _name(picture: Path) -> str:
    """Pictures of learning in one environment or another share their caption."""
    return "learning" if picture.stem.startswith("learning-") else picture.stem
