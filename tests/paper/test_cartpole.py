"""The cart-pole comparison, small: its figures, its report, its resume."""

import msgspec
import numpy as np
import pytest
from scipy.stats import ttest_ind

from bellman_diffusion.paper import agent_cells, cartpole_cells
from bellman_diffusion.paper.cartpole_cells import (
    ALGORITHMS,
    SETTINGS,
    CartRow,
    SeedFigures,
    cartpole_config,
    first_reached,
    relapse_share,
)
from bellman_diffusion.paper.experiment import Workplace
from bellman_diffusion.paper.experiments import cartpole
from bellman_diffusion.paper.experiments.cartpole import CartPoleOptions, CartPoleSummary
from bellman_diffusion.training import NoProgress
from tests.paper.helpers import report_of, workplace


@pytest.fixture
def tiny(monkeypatch):
    """Small networks, the same in both settings, so that each algorithm is compiled once."""
    small = {"hidden": (8,), "batch_size": 16, "updates_per_round": 1, "eval_episodes": 2}
    for name in ("_PLAIN", "_BEST"):
        monkeypatch.setattr(cartpole_cells, name, cartpole_cells._PLAIN | small)
    for name in ("_PLAIN_MODEL", "_BEST_MODEL"):
        models = {algo: {"n_outputs": 15, "sigma": 1.0} for algo in ALGORITHMS}
        monkeypatch.setattr(cartpole_cells, name, models)


def test_the_comparison_gives_every_figure_and_keeps_what_is_made(tiny, tmp_path, monkeypatch):
    options = CartPoleOptions(seeds=2, steps=2000, algos="bellman,c51")
    summary = cartpole.run(options, workplace(tmp_path))
    assert CartPoleSummary.from_json(summary.to_json()) == summary
    for setting in SETTINGS:
        for row in summary.rows(setting).values():
            assert 0 <= row.return_w1 < 1
            assert len(row.per_seed.return_w1) == 2
    page = report_of("cartpole", summary, tmp_path)
    assert page.count("data:image/png") == 2
    assert "the median seed never lasts at 475, C51&#39;s never" in page
    monkeypatch.setattr(agent_cells, "train_agents", lambda *_, **__: pytest.fail("trained again"))
    assert cartpole.run(options, workplace(tmp_path)) == summary


def test_a_cell_that_was_stopped_continues_in_its_training(tiny, tmp_path):
    """The same figures as in one go, the time apart."""
    options = CartPoleOptions(seeds=1, steps=3000, algos="c51")
    whole = cartpole.run(options, workplace(tmp_path / "whole"))

    class Stop(NoProgress):
        def update(self, step, total, figures):
            if step >= 1000:
                raise KeyboardInterrupt

    class Stopped(Workplace):
        def bar(self, *_):
            return Stop()

    with pytest.raises(KeyboardInterrupt):
        cartpole.run(options, Stopped(tmp_path / "parts"))
    (metrics,) = (tmp_path / "parts").glob("cells/plain-c51-*/metrics.jsonl")
    assert len(metrics.read_text().splitlines()) == 1
    parts = cartpole.run(options, workplace(tmp_path / "parts"))
    for setting in SETTINGS:
        one, other = (
            msgspec.structs.replace(s.row(setting, "c51"), seconds=0.0) for s in (whole, parts)
        )
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
    known = [share for share in relapses if share is not None]
    return CartRow(
        median_steps=median if np.isfinite(median) else None,
        worst_steps=None,
        relapses=float(np.mean(known)) if known else None,
        iqm=500.0,
        iqm_interval=(500.0, 500.0),
        seconds=1.0,
        return_w1=0.01,
        scalar_error=0.1,
        gradient_error=0.1,
        first_solved=first,
        first_reached=first,
        per_seed=SeedFigures(
            relapses=relapses, return_w1=[0.01], scalar_error=[0.1], gradient_error=[0.1]
        ),
    )


def text_of(rows):
    return cartpole._text(CartPoleSummary(plain=rows, best=rows, seeds=[0, 1, 2, 3], steps=1000))


def test_the_text_counts_steps_and_says_what_is_not_significant():
    ours = row_of([10_000.0] * 4, [0.01, 0.01, 0.02, 0.0])
    rows = {"bellman": ours, "c51": row_of([15_000.0] * 4, [0.10, 0.12, 0.11, 0.12])}
    text = text_of(rows)
    assert text.count("C51's from step 15,000 on, 1.5 × (1.5 to 1.5) as many steps") == 2
    assert text.count("10.2 ± 0.6 percentage points fewer than C51's") == 2
    rows["c51"] = row_of([15_000.0] * 4, [0.0, 0.0, 0.0, 0.5])
    assert "(not significant)" in text_of(rows)


def test_seeds_that_never_get_there_are_said_in_words():
    ours, never = row_of([10_000.0] * 4, []), row_of([None] * 4, [])
    some = row_of([10_000.0, 20_000.0, 30_000.0, None, None], [])
    assert str(ours.speed_up(never)) == "C51's median seed never gets there"
    assert str(never.speed_up(ours)) == "only C51's gets there"
    assert str(never.speed_up(never)) == "neither median seed gets there"
    other = row_of([5_000.0, 6_000.0, None, None, None], [])
    assert "not significant" in str(some.speed_up(other))


def test_stability_has_the_interval_of_a_difference():
    """Welch's, as scipy has it; seeds that never got there have no relapses."""
    ours, other = [0.0, 0.1, 0.2, 0.1, None], [0.2, 0.3, 0.5, 0.2]
    found = row_of([1.0] * 5, ours).stability_gain(row_of([1.0] * 4, other))
    assert found.mean == pytest.approx(0.2)
    exact = ttest_ind(other, ours[:4], equal_var=False)
    low, high = exact.confidence_interval(0.95)
    assert (found.mean - found.margin, found.mean + found.margin) == pytest.approx((low, high))
    assert found.is_clear == (exact.pvalue < 0.05)
    assert "20.0 ±" in cartpole.shown_stability(found)
    assert row_of([1.0], [0.0]).stability_gain(row_of([1.0], [0.5])) is None
