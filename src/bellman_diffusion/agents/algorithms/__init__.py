"""The algorithms by name. One file each; a new one is registered with `register`."""

from collections.abc import Callable

from bellman_diffusion.agents.algorithms.base import Algorithm, Frame, HeadAlgorithm
from bellman_diffusion.agents.algorithms.bellman import BellmanFields
from bellman_diffusion.agents.algorithms.c51 import C51
from bellman_diffusion.agents.algorithms.dqn import DQN
from bellman_diffusion.agents.algorithms.paper import PaperFields
from bellman_diffusion.agents.algorithms.quantile import QuantileRegression
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.networks import Reader
from bellman_diffusion.errors import InvalidInputError

Maker = Callable[[AgentConfig, Reader, int], Algorithm]

_MAKERS: dict[str, Maker] = {
    "bellman": lambda c, r, n: BellmanFields(
        reader=r, n_actions=n, n_outputs=c.n_outputs, hidden=c.hidden, sigma=c.smoothing
    ),
    "bellman-paper": lambda c, r, n: PaperFields(
        reader=r, n_actions=n, n_grid=c.n_outputs, hidden=c.hidden, sigma=c.smoothing
    ),
    "c51": lambda c, r, n: C51(reader=r, n_actions=n, n_outputs=c.n_outputs, hidden=c.hidden),
    "qr-dqn": lambda c, r, n: QuantileRegression(
        reader=r, n_actions=n, n_outputs=c.n_outputs, hidden=c.hidden
    ),
    "dqn": lambda c, r, n: DQN(reader=r, n_actions=n, hidden=c.hidden),
}


def register(name: str, maker: Maker) -> None:
    """Make an algorithm known under a name: `maker(config, reader, n_actions)` builds it."""
    _MAKERS[name] = maker


def algorithm_names() -> list[str]:
    """All that are known."""
    return list(_MAKERS)


def make_algorithm(config: AgentConfig, reader: Reader, n_actions: int) -> Algorithm:
    """The algorithm of a configuration."""
    if config.algo not in _MAKERS:
        raise InvalidInputError(
            f"no algorithm {config.algo!r}: choose {', '.join(algorithm_names())}"
        )
    return _MAKERS[config.algo](config, reader, n_actions)


__all__ = [
    "Algorithm",
    "Frame",
    "HeadAlgorithm",
    "algorithm_names",
    "make_algorithm",
    "register",
]
