"""Figures of risk, where the level falls inside an atom."""

import jax.numpy as jnp
import numpy as np
import pytest

from bellman_diffusion.agents.risk import Risk
from bellman_diffusion.returns.atoms import AtomicReturn

MASS = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
AT = np.array([-1.0, 0.5, 4.0])


def distributions():
    return AtomicReturn(*(jnp.asarray(a, jnp.float32) for a in (MASS, AT)), jnp.asarray(0.01))


def worst_mean(mass, alpha):
    """The mean of the worst share, taken off from below atom by atom."""
    left, total = alpha, 0.0
    for weight, value in zip(mass, AT, strict=True):
        taken = min(weight, left)
        total, left = total + taken * value, left - taken
    return total / alpha


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.35, 0.5, 0.75, 0.95, 1.0])
def test_cvar_of_atoms_takes_no_more_than_the_worst_share(alpha):
    found = Risk("cvar", alpha).value(distributions())
    np.testing.assert_allclose(found, [worst_mean(row, alpha) for row in MASS], atol=1e-5)


@pytest.mark.parametrize("level", [0.1, 0.35, 0.55, 0.95])
def test_quantile_of_atoms_is_the_first_return_with_so_much_mass_up_to_it(level):
    wanted = [AT[np.flatnonzero(np.cumsum(row) >= level)[0]] for row in MASS]
    np.testing.assert_allclose(Risk("quantile", level).value(distributions()), wanted)


@pytest.mark.parametrize(
    ("level", "wanted"), [(-1.0, [1.0, 1.0]), (0.0, [0.8, 0.4]), (0.5, [0.8, 0.4]), (4.5, [0, 0])]
)
def test_the_chance_of_a_return_counts_those_at_the_level_and_above(level, wanted):
    np.testing.assert_allclose(Risk("above", level).value(distributions()), wanted, atol=1e-6)


@pytest.mark.parametrize("text", ["cvar:0.35", "quantile:0.35", "above:0.5"])
def test_a_risk_of_one_law_is_that_of_the_law_in_a_batch(text):
    risk = Risk.parse(text)
    for i in range(2):
        assert float(risk.value(distributions()[i])) == pytest.approx(
            float(risk.value(distributions())[i])
        )
