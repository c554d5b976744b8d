"""Many seeds on many devices: each device runs its share of the seeds, with no word between them."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from bellman_diffusion.blocks import n_cores


def use_all_cores() -> None:
    """Make every CPU core a device. Only before JAX has started; later it changes nothing."""
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", n_cores())


class SeedGrid:
    """The seeds of this process over its devices, filled up to the same number on each."""

    def __init__(self, seeds: Sequence[int], devices: Sequence[Any] | None = None) -> None:
        devices = list(jax.local_devices() if devices is None else devices)
        self.devices = devices[: max(1, min(len(devices), len(seeds)))]
        n = len(self.devices)
        self.n_seeds = len(seeds)
        filling = -len(seeds) % n
        # Copies of the last seed: what they give is dropped.
        self.seeds = tuple(seeds) + tuple(seeds[-1:]) * filling
        self._mesh = Mesh(np.array(self.devices), ("seed",))

    def keys(self) -> jax.Array:
        """A key for each seed, each on its device."""
        keys = jax.vmap(jax.random.key)(np.asarray(self.seeds, np.uint32))
        return self.place(keys)

    def place(self, tree: Any) -> Any:
        """Arrays with a leading seed axis, filled up and put on their devices."""
        sharding = NamedSharding(self._mesh, P("seed"))
        filling = len(self.seeds) - self.n_seeds

        def put(a: Any) -> jax.Array:
            if filling and a.shape[0] == self.n_seeds:
                a = np.asarray(a)
                a = np.concatenate([a, np.repeat(a[-1:], filling, axis=0)])
            return jax.device_put(a, sharding)

        return jax.tree.map(put, tree)

    def own(self, tree: Any) -> Any:
        """The arrays without what only filled up the devices: the same whatever the devices are.

        Cut on the host. On the devices they would have to talk to each other, and XLA ends the process
        where one waits 40 seconds for another that is slower.
        """
        if len(self.seeds) == self.n_seeds:
            return tree
        return jax.tree.map(lambda a: np.asarray(a)[: self.n_seeds], tree)

    def over_seeds(self, function: Callable[..., Any], shared: int = 0) -> Any:
        """Jit a function of one seed's arguments, and at its end `shared` arguments that all share."""

        def local(*arguments: Any) -> Any:
            own = arguments[: len(arguments) - shared]
            common = arguments[len(arguments) - shared :]
            return jax.vmap(lambda *mine: function(*mine, *common))(*own)

        def whole(*arguments: Any) -> Any:
            specs = (P("seed"),) * (len(arguments) - shared) + (P(),) * shared
            split = jax.shard_map(
                local, mesh=self._mesh, in_specs=specs, out_specs=P("seed"), check_vma=False
            )
            return split(*arguments)

        return jax.jit(whole)

    def results(self, values: Any) -> np.ndarray:
        """What the real seeds gave, on the host."""
        return np.asarray(values)[: self.n_seeds]
