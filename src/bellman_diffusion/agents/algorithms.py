"""The algorithms by name: a return model, and settings of the learner that go with it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bellman_diffusion.errors import InvalidInputError


class Algorithm(NamedTuple):
    """What makes an algorithm; all else is the learner's."""

    model: str
    """The name of its return model."""
    settings: Mapping[str, Any] = {}
    """Settings of `AgentConfig` whose defaults it changes."""


ALGORITHMS: dict[str, Algorithm] = {
    "bellman": Algorithm("smoothed"),
    "bellman-cramer": Algorithm("cramer"),
    "bellman-paper": Algorithm("paper"),
    "c51": Algorithm("categorical"),
    "qr-dqn": Algorithm("quantile"),
    "dqn": Algorithm("expectation"),
}


def register_algorithm(name: str, algorithm: Algorithm) -> None:
    """Make an algorithm known under a name."""
    ALGORITHMS[name] = algorithm


def find_algorithm(name: str) -> Algorithm:
    """The algorithm with this name."""
    if name not in ALGORITHMS:
        raise InvalidInputError(f"no algorithm {name!r}: choose {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]
