"""Settings given as name=value."""

from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.cli.run_settings import read_fields, read_pairs


def test_values_are_of_the_fields_types():
    pairs = [
        "hidden=32,16",
        "sigma=2",
        "support=-1,3.5",
        "double=true",
        "batch_size=8",
        "risk=mean",
    ]
    found = read_fields(pairs, AgentConfig, "--set")
    assert found == {
        "hidden": (32, 16),
        "sigma": 2.0,
        "support": (-1.0, 3.5),
        "double": True,
        "batch_size": 8,
        "risk": "mean",
    }
    assert isinstance(found["sigma"], float)
    assert read_fields(["sigma=none"], AgentConfig, "--set") == {"sigma": None}


def test_environment_options_are_numbers_words_and_truth_values():
    found = read_pairs(["a=1", "b=0.5", "c=8x8", "d=False", "e=none"], "--env-option")
    assert found == {"a": 1, "b": 0.5, "c": "8x8", "d": False, "e": None}


def test_the_smoothing_is_the_least_at_which_backups_are_exact():
    config = AgentConfig("x", gamma=0.99, n_step=3, n_outputs=31)
    assert abs((1 - 0.99**6) * config.smoothing**2 - 0.25) < 1e-12
    assert AgentConfig("x", gamma=0.99, n_step=1, n_outputs=31).smoothing == 3.1
    assert AgentConfig("x", sigma=1.25).smoothing == 1.25
