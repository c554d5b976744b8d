"""Any finite environment as a jitted one: the next row of its table is drawn by inverse CDF."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from bellman_diffusion.environments.base import EnvSpec, JaxEnvironment
from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.returns.mdp import FiniteMDP


class TableEnvironment(JaxEnvironment):
    """Rows of (state, action) padded to the longest list of outcomes."""

    spec: EnvSpec = eqx.field(static=True)
    start: Float[Array, " states"]
    probability: Float[Array, "states actions outcomes"]
    next_state: Int[Array, "states actions outcomes"]
    reward: Float[Array, "states actions outcomes"]
    done: Bool[Array, "states actions outcomes"]

    @classmethod
    def create(cls, mdp: FiniteMDP, spec: EnvSpec) -> "TableEnvironment":
        """From a table with one-dimensional rewards."""
        if mdp.dim != 1:
            raise InvalidInputError(
                f"rewards of {spec.env_id} are vectors of {mdp.dim}: an agent needs one number"
            )
        cell = mdp.state * mdp.n_actions + mdp.action
        order = np.argsort(cell, kind="stable")
        counts = np.bincount(cell, minlength=mdp.n_states * mdp.n_actions)
        place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (mdp.n_states * mdp.n_actions, int(counts.max()))

        def spread(values: np.ndarray, dtype: Any) -> Array:
            table = np.zeros(shape, dtype)
            table[cell[order], place] = values[order]
            return jnp.asarray(table.reshape(mdp.n_states, mdp.n_actions, -1))

        return cls(
            spec,
            jnp.asarray(mdp.start, jnp.float32),
            spread(mdp.probability, np.float32),
            spread(mdp.next_state, np.int32),
            spread(mdp.reward[:, 0], np.float32),
            spread(mdp.done, bool),
        )

    def initial(self, key: Key[Array, ""]) -> tuple[Any, Float[Array, "*shape"]]:
        """A start state."""
        state = _draw(key, self.start)
        return state, _row(state)

    def advance(
        self, key: Key[Array, ""], inner: Any, action: Int[Array, ""]
    ) -> tuple[Any, Float[Array, "*shape"], Float[Array, ""], Bool[Array, ""]]:
        """One outcome of the table."""
        outcome = _draw(key, self.probability[inner, action])
        place = (inner, action, outcome)
        state = self.next_state[place]
        return state, _row(state), self.reward[place], self.done[place]


def _row(state: Int[Array, ""]) -> Float[Array, " 1"]:
    return state.astype(jnp.float32)[None]


def _draw(key: Key[Array, ""], weights: Float[Array, " n"]) -> Int[Array, ""]:
    total = jnp.cumsum(weights)
    point = jax.random.uniform(key) * total[-1]
    return jnp.minimum(jnp.sum(total <= point), weights.shape[0] - 1).astype(jnp.int32)
