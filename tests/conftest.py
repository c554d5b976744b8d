import os
from pathlib import Path

import jax
import pytest

from bellman_diffusion import BellmanDiffusion
from bellman_diffusion.data.toy import UnbalancedMixture

# Commands under test leave the user's own folder of compiled programs alone.
os.environ.setdefault("BELLMAN_CACHE_DIR", "off")
_N_MAPS = Path("/proc/self/maps")


@pytest.fixture(scope="module", autouse=True)
def programs_are_let_go():
    """Every compiled program keeps some memory maps, of which Linux gives a process 65,530."""
    yield
    if _N_MAPS.exists() and _N_MAPS.read_bytes().count(b"\n") > 30_000:
        jax.clear_caches()


@pytest.fixture(scope="session")
def mixture():
    return UnbalancedMixture()


@pytest.fixture(scope="session")
def tiny_model():
    """A model trained just enough to have fields, for tests of everything but quality."""
    return tiny_fit(BellmanDiffusion(max_iter=50, width=16, depth=2, random_state=0))


def tiny_fit(model):
    import numpy as np

    return model.fit(np.random.default_rng(0).normal([1.0, -2.0], [0.5, 3.0], (300, 2)))
