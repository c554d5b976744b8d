"""Several processes, each with its share of the seeds (`jax.distributed`)."""

from collections.abc import Sequence

import jax
import numpy as np
from jax.experimental import multihost_utils

from bellman_diffusion.errors import InvalidInputError


def join(coordinator: str | None, n_processes: int | None, process: int | None) -> None:
    """Meet the other processes. Under Slurm or Kubernetes nothing need be given: JAX finds it out."""
    try:
        jax.distributed.initialize(coordinator, n_processes, process)
    except (RuntimeError, ValueError) as error:
        raise InvalidInputError(
            f"the processes did not meet: {error}. Give --coordinator HOST:PORT, --processes and "
            "--process to each of them"
        ) from error


def own_share(seeds: Sequence[int]) -> list[int]:
    """This process's part of the seeds: as even as can be, in order."""
    n, i = jax.process_count(), jax.process_index()
    if len(seeds) < n:
        raise InvalidInputError(f"{len(seeds)} seeds for {n} processes: give at least one each")
    edges = np.linspace(0, len(seeds), n + 1).round().astype(int)
    return list(seeds[edges[i] : edges[i + 1]])


def gathered(values: np.ndarray, n_seeds: int) -> np.ndarray:
    """Arrays (time, own seeds) of all processes, side by side: (time, all seeds)."""
    if jax.process_count() == 1:
        return values
    most = -(-n_seeds // jax.process_count()) + 1
    filled = np.full((values.shape[0], most), np.nan, np.float32)
    filled[:, : values.shape[1]] = values
    everyone = np.asarray(multihost_utils.process_allgather(filled))
    together = np.concatenate(list(everyone), axis=1)
    return together[:, ~np.isnan(together[0])]
