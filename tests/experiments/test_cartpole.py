"""The cart-pole comparison, small: its figures, its report, its resume."""

import json

import numpy as np
import pytest
from scipy.stats import ttest_ind

from bellman_diffusion.experiments import cartpole
from bellman_diffusion.experiments.cartpole import (
    ALGORITHMS,
    SETTINGS,
    cartpole_config,
    first_reached,
    relapse_share,
    run_cartpole,
)
from bellman_diffusion.report.cartpole_compare import (
    shown_steadiness,
    speed_gain,
    steadiness_gain,
)
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
    keys = {"median_steps", "worst_steps", "relapses", "iqm", "seconds", "law_w1"}
    keys |= {"iqm_interval", "scalar_error", "gradient_error", "per_seed"}
    for setting in SETTINGS:
        for figures in summary[setting].values():
            assert keys <= set(figures)
            assert 0 <= figures["law_w1"] < 1
    report = write_cartpole_report(tmp_path, summary, "bellman reproduce cartpole")
    assert report.stat().st_size > 10_000
    assert "the median seed never lasts at 475, C51's never" in cartpole_verdict(summary)
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
    # The paper's networks are no better for longer returns.
    assert config.n_step == (1 if setting == "plain" or algo == "bellman-paper" else 3)


def test_plain_settings_differ_in_the_return_model_alone():
    plain = [cartpole_config("plain", algo, 1000).to_json() for algo in ALGORITHMS]
    own = {"algo", "n_outputs", "sigma"}
    shared = [{k: v for k, v in config.items() if k not in own} for config in plain]
    assert all(config == shared[0] for config in shared)


def test_solved_is_what_lasts_for_five_evaluations():
    steps = np.arange(1000, 13_000, 1000)
    returns = np.full(12, 500.0)
    returns[[0, 4]] = 100.0
    assert first_reached(steps, returns, 5) == 6000
    assert first_reached(steps, returns) == 2000
    returns[9] = 474.9
    assert first_reached(steps, returns, 5) == np.inf
    assert first_reached(steps[:3], returns[5:8], 5) == np.inf


def test_relapses_are_counted_after_the_first_success_alone():
    """However long it took."""
    slow = np.array([20.0] * 8 + [480.0, 500.0, 300.0, 500.0])
    assert relapse_share(slow) == pytest.approx(1 / 3)
    assert relapse_share(slow[8:]) == relapse_share(slow)
    assert relapse_share(slow[:8]) is None
    assert relapse_share(slow[:9]) is None


def row_of(first, relapses):
    """What the seeds of one algorithm did: steps to 475, shares of relapses."""
    median = float(np.median([np.inf if f is None else f for f in first]))
    return {
        "first_solved": first,
        "median_steps": median if np.isfinite(median) else None,
        "per_seed": {"relapses": relapses},
    }


def test_the_verdict_counts_steps_and_says_what_seeds_leave_open():
    ours = row_of([10_000.0] * 4, [0.01, 0.01, 0.02, 0.0])
    row = {"bellman": ours, "c51": row_of([15_000.0] * 4, [0.10, 0.12, 0.11, 0.12])}
    text = cartpole_verdict({"plain": row, "best": row}).splitlines()
    assert len(text) == 2
    assert "C51's from step 15,000 on, 1.5 × (1.5 to 1.5) as many steps" in text[0]
    assert "10.2 ± 0.6 percentage points fewer than C51's" in text[0]
    row["c51"] = row_of([15_000.0] * 4, [0.0, 0.0, 0.0, 0.5])
    assert "(no more than seeds explain)" in cartpole_verdict({"plain": row, "best": row})


def test_seeds_that_never_get_there_are_said_in_words():
    ours, never = row_of([10_000.0] * 4, []), row_of([None] * 4, [])
    some = row_of([10_000.0, 20_000.0, 30_000.0, None, None], [])
    assert str(speed_gain(ours, never)) == "C51's median seed never gets there"
    assert str(speed_gain(never, ours)) == "only C51's gets there"
    assert str(speed_gain(never, never)) == "neither median seed gets there"
    assert "the seeds leave open" in str(
        speed_gain(some, row_of([5_000.0, 6_000.0, None, None, None], []))
    )


def test_steadiness_has_the_interval_of_a_difference():
    """Welch's, as scipy has it; seeds that never got there have no relapses."""
    ours, other = [0.0, 0.1, 0.2, 0.1, None], [0.2, 0.3, 0.5, 0.2]
    found = steadiness_gain(row_of([1.0] * 5, ours), row_of([1.0] * 4, other))
    assert found.mean == pytest.approx(0.2)
    exact = ttest_ind(other, ours[:4], equal_var=False)
    low, high = exact.confidence_interval(0.95)
    assert (found.mean - found.margin, found.mean + found.margin) == pytest.approx((low, high))
    assert found.is_clear == (exact.pvalue < 0.05)
    assert "20.0 ±" in shown_steadiness(found)
    assert steadiness_gain(row_of([1.0], [0.0]), row_of([1.0], [0.5])) is None
