"""The cart-pole comparison, small: its figures, its report, its resume."""

import json

import numpy as np
import pytest
from scipy.stats import sem

from bellman_diffusion.experiments import cartpole
from bellman_diffusion.experiments.cartpole import (
    ALGORITHMS,
    SETTINGS,
    _first_solved,
    cartpole_config,
    run_cartpole,
)
from bellman_diffusion.report.cartpole_compare import steadiness_gain
from bellman_diffusion.report.cartpole_report import cartpole_verdict, write_cartpole_report
from bellman_diffusion.training import NoProgress


@pytest.fixture
def tiny(monkeypatch):
    """Small networks; two algorithms are enough."""
    small = {"hidden": (8,), "batch_size": 16, "updates_per_round": 1, "eval_episodes": 2}
    monkeypatch.setattr(cartpole, "_PLAIN", cartpole._PLAIN | small)
    monkeypatch.setattr(cartpole, "_BEST", cartpole._BEST | small)


def test_the_comparison_gives_every_figure_and_goes_on_where_it_was(tiny, tmp_path, monkeypatch):
    summary = run_cartpole(tmp_path, [0, 1], 2000, ("bellman", "c51"))
    keys = {"median_steps", "worst_steps", "late_failures", "iqm", "seconds", "law_w1"}
    keys |= {"iqm_interval", "scalar_error", "gradient_error", "per_seed"}
    for setting in SETTINGS:
        for figures in summary[setting].values():
            assert keys <= set(figures)
            assert 0 <= figures["law_w1"] < 1
    report = write_cartpole_report(tmp_path, summary, "bellman reproduce cartpole")
    assert report.stat().st_size > 10_000
    assert "does not reach 475" in cartpole_verdict(summary)
    # What is there is not made again.
    monkeypatch.setattr(cartpole, "_cell", lambda *_: pytest.fail("trained again"))
    again = run_cartpole(tmp_path, [0, 1], 2000, ("bellman", "c51"))
    assert json.dumps(again) == json.dumps(summary)


def test_a_cell_that_was_stopped_goes_on_in_its_training(tiny, tmp_path, monkeypatch):
    """The same figures as in one go, the time apart."""
    whole = run_cartpole(tmp_path / "whole", [0], 3000, ("c51",))

    class Stop(NoProgress):
        def update(self, step, total, figures):
            if step >= 1000:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cartpole, "training_bar", lambda _: Stop())
        with pytest.raises(KeyboardInterrupt):
            run_cartpole(tmp_path / "parts", [0], 3000, ("c51",), quiet=False)
    (metrics,) = (tmp_path / "parts").glob("cells/plain-c51-*/metrics.jsonl")
    assert len(metrics.read_text().splitlines()) == 1
    parts = run_cartpole(tmp_path / "parts", [0], 3000, ("c51",))
    for setting in SETTINGS:
        one, other = (dict(s["cells"][setting]["c51"], seconds=0) for s in (whole, parts))
        assert one == other


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_cell_can_be_configured(setting, algo):
    config = cartpole_config(setting, algo, 100_000)
    assert config.algo == algo
    assert config.n_step == (1 if setting == "plain" else 3)


def test_plain_settings_differ_in_the_return_model_alone():
    plain = [cartpole_config("plain", algo, 1000).to_json() for algo in ALGORITHMS]
    own = {"algo", "n_outputs", "sigma"}
    shared = [{k: v for k, v in config.items() if k not in own} for config in plain]
    assert all(config == shared[0] for config in shared)


def test_solved_is_what_lasts_for_five_evaluations():
    steps = np.arange(1000, 13_000, 1000)
    returns = np.full(12, 500.0)
    returns[[0, 4]] = 100.0
    assert _first_solved(steps, returns) == 6000
    returns[9] = 474.9
    assert _first_solved(steps, returns) == np.inf
    assert _first_solved(steps[:3], returns[5:8]) == np.inf


def row_of(first, late):
    """What the seeds of one algorithm did: steps to 475, shares of late failures."""
    return {
        "first_solved": first,
        "median_steps": float(np.median(first)),
        "late_failures": float(np.mean(late)),
        "per_seed": {"late_failures": late},
    }


def test_the_verdict_counts_steps_and_says_what_seeds_leave_open():
    ours = row_of([10_000.0] * 4, [0.01, 0.01, 0.02, 0.0])
    row = {"bellman": ours, "c51": row_of([15_000.0] * 4, [0.10, 0.12, 0.11, 0.12])}
    text = cartpole_verdict({"plain": row, "best": row})
    assert "1.5 × (1.5 to 1.5) faster" in text
    assert "it is steadier" in text
    row["c51"] = row_of([15_000.0] * 4, [0.0, 0.0, 0.0, 0.5])
    assert "as steady, as far as seeds tell" in cartpole_verdict({"plain": row, "best": row})


def test_steadiness_has_the_standard_error_of_a_difference():
    ours, other = [0.0, 0.1, 0.2, 0.1], [0.2, 0.3, 0.5, 0.2]
    found = steadiness_gain(row_of([1.0] * 4, ours), row_of([1.0] * 4, other))
    assert found.gain == pytest.approx(0.2)
    assert found.error == pytest.approx(np.sqrt(sem(ours) ** 2 + sem(other) ** 2))
    assert steadiness_gain(row_of([1.0], [0.0]), row_of([1.0], [0.5])) is None
