"""The scikit-learn face of the generative model."""

import hashlib
import os
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from pandas import DataFrame
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bellman_diffusion import model
from bellman_diffusion.density import log_density_by_flow
from bellman_diffusion.dynamics import (
    Annealed,
    Box,
    Samples,
    data_start,
    normal_start,
    sample,
    trace,
)
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.fields import (
    AbstractField,
    AbstractNoiseField,
    at_noise,
    evaluate,
    evaluate_score,
)
from bellman_diffusion.frames import feature_names, frame_type, validated
from bellman_diffusion.model import ModelHeader
from bellman_diffusion.recipe import SAMPLER_SETTINGS, Recipe, make_recipe
from bellman_diffusion.standardise import Standardiser
from bellman_diffusion.training import NoProgress, Progress, RichProgress, RunFolder
from bellman_diffusion.training.checkpoint import read_checkpoint, write_checkpoint
from bellman_diffusion.training.run import read_config

_KIND = "generative model"
_MAX_SEED = 2**31 - 1
# Settings of the recipe that are parameters of the estimator too.
_CHANGED = ("width", "depth", "max_iter", "batch_size", "learning_rate", "n_steps")


class BellmanDiffusion(DensityMixin, BaseEstimator):
    """Learns the scalar field s and the gradient field g of a density, and samples from them.

    Parameters
    ----------
    preset : "default", "paper" or a Recipe
        What to learn and how: what works best, the paper's Algorithms 1 and 2, or settings of your own
        (`make_recipe("default", epsilon=0.5, ...)`; `Recipe` documents all of them).
    width, depth, max_iter, batch_size, learning_rate, n_steps
        Settings that are changed most often: hidden units and layers, training steps, points a step,
        Adam's largest rate, steps of the sampler. None keeps the preset's value.
    random_state : int, RandomState or None
        The seed of `fit`; and of `sample` where that is given none.
    verbose : int
        1 shows a progress bar on stderr.
    run_dir : path or None
        Where to keep configuration, metrics (JSONL and TensorBoard) and a checkpoint. Fitting again
        with the same folder, data and settings goes on from the checkpoint.

    Attributes
    ----------
    recipe_ : Recipe
        All settings in force.
    field_ : AbstractField or AbstractNoiseField
        The learned fields, on standardised data.
    loss_ : float
        The mean loss over the last chunk of training steps.
    n_iter_ : int
        Training steps that led to the fields.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    """

    # Not typed more closely: scikit-learn wants __init__ to take anything, and `Recipe` says in words
    # what is wrong with a setting.
    def __init__(
        self,
        preset: Any = "default",
        *,
        width: Any = None,
        depth: Any = None,
        max_iter: Any = None,
        batch_size: Any = None,
        learning_rate: Any = None,
        n_steps: Any = None,
        random_state: Any = None,
        verbose: Any = 0,
        run_dir: Any = None,
    ) -> None:
        self.preset = preset
        self.width = width
        self.depth = depth
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_steps = n_steps
        self.random_state = random_state
        self.verbose = verbose
        self.run_dir = run_dir

    def fit(
        self, X: Any, y: Any = None, *, validation: Any = None, progress: Progress | None = None
    ) -> "BellmanDiffusion":
        """Learn the fields of the rows of X, of shape (rows, columns).

        With `validation`, other rows of the same columns, training ends with the weights that did best
        on them: with few rows it would go on to copy them. `progress` replaces the bar that `verbose`
        would show.
        """
        del y
        frame = frame_type(X)
        rows = validated(self, X, reset=True)
        recipe = self._resolve()
        standardiser = Standardiser.fit(rows, feature_names(self))
        z = standardiser.forward(rows)
        _check_sampler(recipe, z.shape[1])
        seed = self._fit_seed()
        others = None
        if validation is not None:
            others = standardiser.forward(validated(self, validation, reset=False))
        run = None
        if self.run_dir is not None:
            # The data's digest too: a run continues only with the rows that it was started with.
            digest = hashlib.sha256(z.tobytes()).hexdigest()[:16]
            config: dict[str, Any] = {"seed": seed, "rows": len(z), "data": digest}
            config |= {} if others is None else {"validation_rows": len(others)}
            run = RunFolder(self.run_dir, config | recipe.training_config())
        if progress is None:
            progress = RichProgress("fit") if self.verbose else NoProgress()
        fitted = model.fit_field(recipe, z, seed, validation=others, run=run, progress=progress)
        self.field_ = fitted.model
        self.recipe_ = recipe
        self.standardiser_ = standardiser
        self.box_ = Box.around(z)
        self.covariance_ = model.covariance_of(z)
        self.train_rows_ = z
        self.frame_type_ = frame
        self.loss_ = fitted.figures["loss"]
        self.n_iter_ = fitted.steps
        return self

    def sample(
        self,
        n_samples: Any = 1,
        random_state: Any = None,
        *,
        start: Any = "normal",
        max_lost: float = 0.01,
    ) -> Any:
        """Draw `n_samples` new rows; a data frame where `fit` had one.

        `start` is where the paths begin: "normal", "data" (rows of the training data), or an array
        of shape (n_samples, columns). More than `max_lost` of the paths not finite or far outside
        the data is an error.
        """
        result = self.sample_paths(n_samples, random_state, start=start, max_lost=max_lost)
        if self.frame_type_ is None:
            return result.x
        return self.frame_type_(result.x, columns=getattr(self, "feature_names_in_", None))

    def sample_paths(
        self,
        n_samples: Any = 1,
        random_state: Any = None,
        *,
        start: Any = "normal",
        max_lost: float = 0.01,
    ) -> Samples:
        """As `sample`, with the number of paths lost and the acceptance rate."""
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise InvalidInputError(f"n_samples must be a whole number above 0, not {n_samples!r}")
        # `fit` with the same seed must not have used the same numbers.
        key = jax.random.fold_in(self._sample_key(random_state), 1)
        key_start, key_paths = jax.random.split(key)
        result = sample(
            model.build_dynamics(self._resolve_sampler(), self.field_),
            key_paths,
            self._start(key_start, int(n_samples), start),
            box=self.box_,
            max_lost=max_lost,
        )
        return result._replace(x=self.standardiser_.backward(result.x))

    def trace(
        self, n_paths: int, n_frames: int, random_state: Any = None
    ) -> tuple[list[float] | None, Float[np.ndarray, "frames paths dim"]]:
        """The sampler at work: about `n_frames` moments of `n_paths` paths, and their noise levels.

        Noise levels are in standard deviations of the columns; None where the sampler has none.
        """
        check_is_fitted(self)
        key_start, key_paths = jax.random.split(self._sample_key(random_state))
        dynamics = model.build_dynamics(self._resolve_sampler(), self.field_)
        start = self._start(key_start, n_paths, "normal")
        steps, positions = trace(dynamics, key_paths, start, n_frames)
        levels = None
        if isinstance(dynamics, Annealed):
            # After the last step no noise is left; the fields are drawn at the least they know.
            sigmas = np.asarray(dynamics.sigmas(), float)[np.minimum(steps, dynamics.n_steps - 1)]
            # Single precision may leave the range marginally.
            ends = dynamics.field.sigma_min, dynamics.field.sigma_max
            levels = np.clip(sigmas, *ends).tolist()
        n, *shape = positions.shape
        flat = self.standardiser_.backward(positions.reshape(-1, shape[1]))
        return levels, flat.reshape(n, *shape)

    def complete(self, X: Any, random_state: Any = None) -> Float[np.ndarray, "n dim"]:
        """The rows of X with each NaN filled by a draw from its distribution given the rest of the row.

        Exact for normal data, an approximation for other (`fields.GuidedPair`).
        """
        check_is_fitted(self)
        rows = validated(self, X, reset=False, allow_nan=True)
        key_rows = jax.random.fold_in(self._sample_key(random_state), 2)
        dynamics = model.build_conditioned(self._resolve_sampler(), self.field_)
        known = self.standardiser_.forward(rows)
        filled = sample(dynamics, key_rows, known, max_lost=0.01).x
        return np.where(np.isnan(rows), self.standardiser_.backward(filled), rows)

    def score_samples(self, X: Any) -> Float[np.ndarray, " n"]:
        """The log-density at each row of X.

        Of the data smoothed a little: by sigma_min (in standard deviations of the columns) where the
        fields know the noise level, by the kernel where s is a density. −inf where the density is
        too small to resolve.
        """
        z = self._checked(X)
        if isinstance(self.field_, AbstractNoiseField):
            log_p = log_density_by_flow(self.field_, z, jnp.asarray(self.covariance_))
        elif model.scalar_is_density(self.recipe_, z.shape[1]):
            log_p = np.log(evaluate(self.field_, z)[0])
        else:
            raise InvalidInputError(
                "with the sliced kernel the scalar field is not a density in more than one "
                "dimension: use the 'default' preset, or kernel='isotropic'"
            )
        return log_p.astype(np.float64) - self.standardiser_.log_volume

    def score(self, X: Any, y: Any = None) -> float:  # pyright: ignore (the mixin has no result)
        """The mean log-density of the rows of X."""
        del y
        return float(np.mean(self.score_samples(X)))

    def scalar_field(self, X: Any, *, sigma: float | None = None) -> Float[np.ndarray, " n"]:
        """s at each row, in the data's units, at noise level `sigma` (by default the smallest).

        It is a density only where the kernel is isotropic: see `score_samples` for log-densities.
        """
        s, _ = evaluate(self._at(sigma), self._checked(X))
        return s * np.exp(-self.standardiser_.log_volume)

    def gradient_field(self, X: Any, *, sigma: float | None = None) -> Float[np.ndarray, "n dim"]:
        """g at each row, in the data's units; dx = g dt + √s dw leaves the data stationary."""
        _, g = evaluate(self._at(sigma), self._checked(X))
        return g / self.standardiser_.scale * np.exp(-self.standardiser_.log_volume)

    def score_field(self, X: Any, *, sigma: float | None = None) -> Float[np.ndarray, "n dim"]:
        """∇log p at each row, from (2g − ∇s)/s."""
        score = evaluate_score(self._at(sigma), self._checked(X))
        return score / self.standardiser_.scale

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file (no training data in it)."""
        write_checkpoint(Path(path), _KIND, self.field_, self.to_header())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "BellmanDiffusion":
        """The model that `save` wrote."""
        field, header = read_checkpoint(Path(path), _KIND, ModelHeader, ModelHeader.structure)
        return cls.from_header(field, header)

    def to_header(self) -> ModelHeader:
        """All but the fields."""
        check_is_fitted(self)
        seed = self.random_state
        return ModelHeader(
            recipe=self.recipe_,
            random_state=int(seed) if isinstance(seed, Integral) else None,
            columns=int(self.n_features_in_),
            names=feature_names(self),
            mean=self.standardiser_.mean.tolist(),
            scale=self.standardiser_.scale.tolist(),
            box=(self.box_.low.tolist(), self.box_.high.tolist()),
            covariance=self.covariance_.tolist(),
            frame=self.frame_type_ is not None,
            loss=float(self.loss_),
            steps=int(self.n_iter_),
        )

    @classmethod
    def from_header(cls, field: model.Field, header: ModelHeader) -> "BellmanDiffusion":
        """A model from its fields and what `to_header` gave."""
        loaded = cls(header.recipe, random_state=header.random_state)
        loaded._restore(field, header)
        return loaded

    def _restore(self, field: model.Field, header: ModelHeader) -> None:
        self.field_ = field
        self.recipe_ = header.recipe
        self.n_features_in_ = header.columns
        if header.names is not None:
            self.feature_names_in_ = np.asarray(header.names, dtype=object)
        self.standardiser_ = Standardiser(np.asarray(header.mean), np.asarray(header.scale))
        self.box_ = Box(*(np.asarray(side) for side in header.box))
        self.covariance_ = np.asarray(header.covariance, np.float32)
        self.train_rows_ = None
        self.frame_type_ = DataFrame if header.frame else None
        self.loss_ = header.loss
        self.n_iter_ = header.steps

    def _resolve(self) -> Recipe:
        return make_recipe(self.preset, **{name: getattr(self, name) for name in _CHANGED})

    def _resolve_sampler(self) -> Recipe:
        """The fitted recipe with the sampler's settings as they are now: no new fit is needed."""
        now = self._resolve()
        recipe = replace(self.recipe_, **{name: getattr(now, name) for name in SAMPLER_SETTINGS})
        _check_sampler(recipe, self.n_features_in_)
        return recipe

    def _fit_seed(self) -> int:
        """The seed of a fit; a run that continues without a seed of its own takes the run's."""
        if self.random_state is None and self.run_dir is not None:
            started = read_config(self.run_dir)
            if started is not None and isinstance(started.get("seed"), int):
                return started["seed"]
        return int(check_random_state(self.random_state).randint(_MAX_SEED))

    def _sample_key(self, random_state: Any) -> Array:
        chosen = self.random_state if random_state is None else random_state
        return jax.random.key(check_random_state(chosen).randint(_MAX_SEED))

    def _start_covariance(self) -> Float[np.ndarray, "dim dim"]:
        """Of the paths' starts: at the largest noise level the data is nearly normal."""
        unit = np.eye(self.n_features_in_, dtype=np.float32)
        if isinstance(self.field_, AbstractNoiseField):
            return self.covariance_ + np.float32(self.field_.sigma_max**2) * unit
        return unit

    def _start(self, key: Array, n: int, start: Any) -> Float[np.ndarray, "n dim"]:
        if isinstance(start, str) and start == "normal":
            return np.asarray(normal_start(key, n, jnp.asarray(self._start_covariance())))
        if isinstance(start, str) and start == "data":
            if self.train_rows_ is None:
                raise InvalidInputError(
                    "a loaded model has no training data to start from: pass rows as `start`"
                )
            return np.asarray(data_start(key, n, jnp.asarray(self.train_rows_)))
        if isinstance(start, str):
            raise InvalidInputError(f"start must be 'normal', 'data' or an array, not {start!r}")
        rows = self._checked(start)
        if len(rows) != n:
            raise InvalidInputError(f"start has {len(rows)} rows, but n_samples is {n}")
        return rows

    def _checked(self, X: Any) -> Float[np.ndarray, "n dim"]:
        check_is_fitted(self)
        return self.standardiser_.forward(validated(self, X, reset=False))

    def _at(self, sigma: float | None) -> AbstractField:
        check_is_fitted(self)
        if not isinstance(self.field_, AbstractNoiseField):
            if sigma is not None:
                raise InvalidInputError("these fields have no noise level; leave out sigma")
            return self.field_
        low, high = self.field_.sigma_min, self.field_.sigma_max
        sigma = low if sigma is None else sigma
        if not isinstance(sigma, Real) or not low <= float(sigma) <= high:
            raise InvalidInputError(f"sigma must lie in [{low:g}, {high:g}], not {sigma!r}")
        return at_noise(self.field_, sigma)


def _check_sampler(recipe: Recipe, dim: int) -> None:
    if recipe.dynamics == "metropolis" and not model.scalar_is_density(recipe, dim):
        raise InvalidInputError(
            "Metropolis adjustment needs a scalar field that is a density: set kernel='isotropic'"
        )
