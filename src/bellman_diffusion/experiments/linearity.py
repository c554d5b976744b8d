"""Section 2's argument as an experiment: which models may be backed up by averaging over what follows?

A one-step update averages what the next states' models say. The Bellman equation of the law is linear
in the density, so averaging densities, gradients or CDFs is right. Energies, scores and log-densities
of a flow are not linear in the density: their averages belong to a geometric mean, another law.

All start from the exact law. The right operator leaves it where it is; what moves it is bias.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.ndimage import gaussian_filter1d
from scipy.stats import norm

from bellman_diffusion.bellman.mdp import Chain
from bellman_diffusion.bellman.reference import atoms_at_the_end
from bellman_diffusion.experiments.frozenlake import GAMMA, SIGMA, lake_chain
from bellman_diffusion.training.files import write_json

Densities = Float[np.ndarray, "states n"]
# Energies are finite: as far out as double precision goes.
_TINY = 1e-300


@dataclass(frozen=True)
class LinearitySettings:
    """The sizes of the experiment."""

    n_backups: int = 50
    n_grid: int = 1601
    n_samples: int = 2000
    """Transitions of each state that a learned average is over, drawn afresh for each backup."""


def run_linearity(
    out: Path, seed: int, settings: LinearitySettings | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """W1 to the exact law after each backup, for each kind of model, exact or learned from samples.

    Returns the figures, and the laws after one backup for the picture.
    """
    settings = settings or LinearitySettings()
    start = time.perf_counter()
    chain, grid = lake_chain(), np.linspace(-0.5, 1.5, settings.n_grid)
    law = atoms_at_the_end(chain, GAMMA)
    exact = law.probabilities @ norm.pdf(grid[None], law.atoms[:, None], SIGMA)
    curves: dict[str, Any] = {}
    pictures = {"grid": grid, "exact": exact}
    for name, average in OPERATORS.items():
        for learned in (False, True):
            rng = np.random.default_rng(seed)
            law, worst, means, masses = exact, [], [], []
            for k in range(settings.n_backups):
                weights = _sampled(chain, settings.n_samples, rng) if learned else chain
                law, mass = _backup(weights, law, grid, average)
                w1 = _w1(law, exact, grid)
                worst.append(float(w1.max()))
                means.append(float(w1.mean()))
                masses.append(float(mass.min()))
                if k == 0 and not learned:
                    pictures[name] = law
            curves[f"{name}, {'learned' if learned else 'exact'}"] = {
                "w1_worst": worst,
                "w1_mean": means,
                "least_mass": min(masses),
            }
    summary = {
        "curves": curves,
        "seed": seed,
        "n_samples": settings.n_samples,
        "seconds": time.perf_counter() - start,
    }
    write_json(out / "linearity.json", summary)
    return summary, pictures


def _log(density: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(density, _TINY))


def _mean_density(branches: np.ndarray, weights: np.ndarray, grid: np.ndarray) -> np.ndarray:
    return weights @ branches


def _mean_energy(branches: np.ndarray, weights: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The law whose energy is the mean of the energies; its constant is known, so it is normalised."""
    energy = -(weights @ _log(branches))
    density = np.exp(-(energy - energy.min()))
    return density / np.trapezoid(density, grid)


def _mean_score(branches: np.ndarray, weights: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The law whose score is the mean of the scores."""
    score = weights @ np.gradient(_log(branches), grid, axis=1)
    steps = (score[1:] + score[:-1]) / 2 * np.diff(grid)
    log_density = np.concatenate([[0.0], np.cumsum(steps)])
    density = np.exp(log_density - log_density.max())
    return density / np.trapezoid(density, grid)


def _mean_log_density(branches: np.ndarray, weights: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """A flow's log-density regressed to the mean of log-densities: its mass is then not 1."""
    return np.exp(weights @ _log(branches))


OPERATORS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "fields (density and gradient)": _mean_density,
    "energy (EBM)": _mean_energy,
    "score (diffusion)": _mean_score,
    "log-density (flow)": _mean_log_density,
}


def _backup(
    chain: Chain, laws: Densities, grid: np.ndarray, average: Callable[..., np.ndarray]
) -> tuple[Densities, np.ndarray]:
    """One noise-preserving backup of every state; also the mass before it is normalised."""
    step = grid[1] - grid[0]
    width = np.sqrt(1 - GAMMA**2) * SIGMA / step
    new = np.zeros_like(laws)
    for state in range(chain.n_states):
        rows = np.flatnonzero(chain.state == state)
        branches = []
        for row in rows:
            reward = chain.reward[row, 0]
            if chain.done[row]:
                branches.append(norm.pdf(grid, reward, SIGMA))
            else:
                moved = np.interp((grid - reward) / GAMMA, grid, laws[chain.following[row]]) / GAMMA
                branches.append(gaussian_filter1d(moved, width, mode="constant", truncate=8))
        new[state] = average(np.stack(branches), chain.probability[rows], grid)
    mass = np.trapezoid(new, grid, axis=1)
    return new / mass[:, None], mass


def _sampled(chain: Chain, n: int, rng: np.random.Generator) -> Chain:
    """The chain as n transitions of each state show it."""
    probability = np.zeros_like(chain.probability)
    for state in range(chain.n_states):
        rows = np.flatnonzero(chain.state == state)
        p = chain.probability[rows]
        probability[rows] = rng.multinomial(n, p / p.sum()) / n
    seen = probability > 0
    return chain._replace(
        state=chain.state[seen],
        probability=probability[seen],
        following=chain.following[seen],
        reward=chain.reward[seen],
        done=chain.done[seen],
    )


def _w1(law: Densities, exact: Densities, grid: np.ndarray) -> np.ndarray:
    gap = np.cumsum(law - exact, axis=1) * (grid[1] - grid[0])
    return np.trapezoid(np.abs(gap), grid, axis=1)
