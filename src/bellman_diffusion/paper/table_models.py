"""The models of Table 1: each learns coordinates of rows and draws new ones."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bellman_diffusion.baselines import (
    DDPM,
    DdpmSettings,
    InterpolationModel,
    KernelModel,
    MixtureModel,
    ScoreFlowModel,
    ScoreFlowSettings,
)
from bellman_diffusion.estimator import BellmanDiffusion
from bellman_diffusion.recipe import Recipe, make_recipe

# In standard deviations of the columns; with 0.1 a third of the paths on Abalone are lost.
_LEAST_JITTER = 0.3


class Task(NamedTuple):
    """What a model is given, and how many rows are asked of it."""

    rows: Float[np.ndarray, "n dim"]
    validation: Float[np.ndarray, "m dim"]
    recipe: Recipe
    """What `bellman fit` would take for the table."""
    n_drawn: int
    seed: int
    max_iter: int | None
    """Training steps; None for the model's own."""

    @property
    def steps(self) -> dict[str, Any]:
        """The number of training steps as a setting, where it is given."""
        return {} if self.max_iter is None else {"max_iter": self.max_iter}


Model = Callable[[Task], Float[np.ndarray, "k dim"]]


def _fit_and_draw(task: Task, recipe: Recipe, **how: Any) -> Float[np.ndarray, "k dim"]:
    model = BellmanDiffusion(recipe, random_state=task.seed).fit(task.rows, **how)
    return model.sample_paths(task.n_drawn, task.seed, max_lost=1.0).x


def default(task: Task, **changes: Any) -> Float[np.ndarray, "k dim"]:
    """Ours, with the settings that `bellman fit` takes."""
    recipe = make_recipe(task.recipe, **(changes | task.steps))
    return _fit_and_draw(task, recipe, validation=task.validation)


def paper(task: Task, **changes: Any) -> Float[np.ndarray, "k dim"]:
    """Algorithms 1 and 2 as they are written."""
    return _fit_and_draw(task, make_recipe("paper", **(changes | task.steps)))


def stabilised_paper(task: Task, **changes: Any) -> Float[np.ndarray, "k dim"]:
    """The paper's algorithms with one thing added: fresh noise on the points of its losses.

    Less noise than this leaves paths that never come back; nothing else is needed.
    """
    return paper(task, jitter=_LEAST_JITTER, max_iter=4000, **changes)


def ddpm(task: Task) -> Float[np.ndarray, "k dim"]:
    """The paper's baseline."""
    model = DDPM(DdpmSettings(**task.steps), task.seed)
    return model.fit(task.rows, validation=task.validation).sample(task.n_drawn, task.seed)


def score(task: Task) -> Float[np.ndarray, "k dim"]:
    """A score model at many noise levels."""
    model = ScoreFlowModel(ScoreFlowSettings(**task.steps), task.seed)
    return model.fit(task.rows, validation=task.validation).sample(task.n_drawn, task.seed)


def _classical(kind: Callable[[], Any]) -> Model:
    # These choose by cross-validation or a criterion of their own, from all training rows.
    def draw(task: Task) -> Float[np.ndarray, "k dim"]:
        rows = np.concatenate([task.rows, task.validation])
        return kind().fit(rows).sample(task.n_drawn, task.seed)

    return draw


MODELS: dict[str, Model] = {
    "bellman": default,
    "ddpm": ddpm,
    "score": score,
    "stabilised": stabilised_paper,
    "paper": paper,
    "kernel": _classical(KernelModel),
    "mixture": _classical(MixtureModel),
    "interpolation": _classical(InterpolationModel),
}
