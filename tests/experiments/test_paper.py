"""The whole paper: the ledger's verdicts, and one command for all experiments."""

import json
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from bellman_diffusion.cli import main, reproduce_all
from bellman_diffusion.cli import reproduce as commands
from bellman_diffusion.errors import DataMissingError
from bellman_diffusion.experiments.equivalence import pairs_needed, run_equivalence
from bellman_diffusion.experiments.paper import PARTS
from bellman_diffusion.report.claims import CLAIMS
from bellman_diffusion.report.equivalence_report import write_equivalence_report
from bellman_diffusion.report.ledger import ledger_rows, verdict_counts
from bellman_diffusion.report.paper_report import read_results
from bellman_diffusion.training.files import write_json

PUBLISHED = Path(__file__).parents[2] / "results"
VERDICTS = {"reproduced", "better", "not reproduced", "claim wrong"}


def bellman(*arguments):
    with (
        mock.patch.object(sys, "argv", ["bellman", *arguments]),
        pytest.raises(SystemExit) as stop,
    ):
        main.run()
    return stop.value.code


def test_field_matching_losses_agree_as_epsilon_falls(tmp_path):
    """Propositions 3.1 and 3.2 hold; the kernel on projections is another loss."""
    summary = run_equivalence(tmp_path)
    first, *_, last = summary["rows"]
    assert last["gradient"] < 0.005
    assert last["scalar"] < 0.005
    # Slices are drawn: a hundredth of the loss's spread is left.
    assert last["sliced"] < 0.01
    assert first["gradient"] > 10 * last["gradient"]
    assert last["projected_scalar"] > 0.3
    for found in summary["divergences"].values():
        assert found["itself"] < 1e-12
        assert found["least_of_others"] > 1e-6
        assert found["quadratic"] < 0.01
    page = write_equivalence_report(tmp_path, summary, "bellman reproduce equivalence")
    assert "Field matching" in page.read_text()


@pytest.mark.parametrize("dim", [1, 3])
def test_pairs_for_a_kernel_are_those_of_its_variance(dim):
    """Against a million draws: Var κ / (E κ)² is a hundredth of the pairs."""
    gap = np.sqrt(2) * np.random.default_rng(0).standard_normal((1_000_000, dim))
    kernel = np.exp(-0.5 * np.sum(gap**2, axis=1) / 0.5)
    wanted = np.var(kernel) / np.mean(kernel) ** 2 / 0.01
    assert pairs_needed(dim, 2.0, 0.5) == pytest.approx(wanted, rel=0.02)


def test_every_claim_belongs_to_an_experiment_of_the_paper():
    assert {claim.part for claim in CLAIMS} == {part.name for part in PARTS}
    for part in PARTS:
        assert callable(getattr(commands, part.name))


def test_without_results_nothing_is_claimed():
    counts = verdict_counts(ledger_rows({}))
    assert counts == {"not run": len(CLAIMS)}


def test_published_results_judge_every_claim():
    rows = ledger_rows(read_results(PUBLISHED))
    for claim, finding in rows:
        if (PUBLISHED / claim.part / f"{claim.part}.json").exists():
            assert finding.verdict in VERDICTS, (claim.text, finding)
            assert finding.evidence.endswith(".")


def test_a_result_that_lacks_a_figure_is_not_judged():
    rows = ledger_rows({"toy": {"mixture": {}}})
    by_text = {claim.text: finding for claim, finding in rows}
    assert by_text["Learns two moons"].verdict == "not run"


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ("cartpole", ("best", "bellman-paper", "relapses")),
        ("cartpole", ("best", "bellman", "median_steps")),
        ("cartpole", ("best", "c51", "median_steps")),
        ("toy", ("moons", "w1")),
        ("toy", ("weight_errors",)),
        ("toy", ("moons", "paper", "w1")),
    ],
)
def test_figures_that_a_thinned_run_lacks_are_no_errors(part, path):
    summary = json.loads((PUBLISHED / part / f"{part}.json").read_text())
    node = summary
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = None
    for claim, finding in ledger_rows({part: summary}):
        assert finding.verdict in VERDICTS | {"not run"}, claim
        assert "None" not in finding.evidence + finding.ours


def faster(ours, c51, paper=(None,) * 5):
    """The verdict of the claim of speed, for the steps that five seeds of each took."""
    row = {}
    for name, steps in (("bellman", ours), ("c51", c51), ("bellman-paper", paper)):
        median = sorted(float("inf") if s is None else s for s in steps)[2]
        row[name] = {
            "first_solved": list(steps),
            "first_reached": list(steps),
            "median_steps": None if median == float("inf") else median,
        }
    summary = json.loads((PUBLISHED / "cartpole" / "cartpole.json").read_text())
    summary["seeds"] = list(range(len(ours)))
    for setting in ("plain", "best"):
        summary[setting] = {name: summary[setting][name] | row[name] for name in row}
    return {c.text: f for c, f in ledger_rows({"cartpole": summary})}["Learns faster than C51"]


def test_speed_is_claimed_only_beyond_what_seeds_explain():
    never = faster((5, 5, 5, 5, 6), (None,) * 5)
    assert never.verdict == "better"
    assert "C51 never" in never.evidence
    assert "C51's median seed never gets there" in never.ours
    assert "∞" not in never.ours
    assert faster((5, 5, 5, 5, 5), (7, 8, 8, 9, 9), paper=(5,) * 5).verdict == "reproduced"
    # Medians differ by half; so do the seeds.
    assert faster((4, 4, 6, 9, 9), (5, 5, 9, 10, 10)).verdict == "not reproduced"
    assert faster((None,) * 5, (None,) * 5).verdict == "not reproduced"
    # An interval over two seeds says nothing.
    few = faster((5, 5, 5, 5, 6)[:3], (7, 8, 8, 9, 9)[:3], paper=(None,) * 3)
    assert few.verdict == "not run"


def table_1(ours, ddpm):
    """The verdict by MMD where Parkinsons has these figures, seed by seed."""
    summary = json.loads((PUBLISHED / "tabular" / "tabular.json").read_text())
    for name, values in (("bellman", ours), ("ddpm", ddpm)):
        cells = [{"mmd": value} for value in values]
        summary["parkinsons"][name] |= {"per_seed": cells, "mmd": float(np.mean(values))}
    return {c.text: f for c, f in ledger_rows({"tabular": summary})}["and by MMD"]


def test_tables_are_compared_seed_by_seed():
    """A model that is farther by one on every split is farther, however much splits differ."""
    splits = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
    assert table_1(splits, splits).verdict == "reproduced"
    farther = table_1(splits + np.array([1.4, 1.5, 1.6, 1.5, 1.5]), splits)
    assert farther.verdict == "not reproduced"
    assert "clearly farther on 1" in farther.ours


def test_published_results_are_those_of_the_full_run():
    """Results in the repository come from `bellman reproduce all`, which noted commands and times."""
    runs = json.loads((PUBLISHED / "all.json").read_text())
    for part in PARTS:
        if part.name in runs:
            command = commands.command_of(part.name, **part.options_of(False, 0))
            assert runs[part.name]["command"] == command
            assert runs[part.name]["seconds"] > 0
        found = json.loads((PUBLISHED / part.name / f"{part.name}.json").read_text())
        if "seeds" in part.options:
            first = part.options["seed"]
            assert found["seeds"] == list(range(first, first + part.options["seeds"])), part.name


def fake(name, calls, fail=()):
    def run(out, quiet, **options):
        calls.append((name, options))
        if name in fail:
            raise DataMissingError(f"no data for {name}")
        published = PUBLISHED / name / f"{name}.json"
        if published.exists():
            write_json(out / f"{name}.json", json.loads(published.read_text()))

    return run


@pytest.fixture
def calls(monkeypatch):
    """Experiments that take no time: they bring the published results."""
    found = []
    for part in PARTS:
        monkeypatch.setattr(commands, part.name, fake(part.name, found))
    return found


def test_all_runs_every_part_once_and_goes_on_where_it_stopped(
    tmp_path, calls, monkeypatch, capsys
):
    monkeypatch.setattr(commands, "toy", fake("toy", calls, fail=["toy"]))
    # Left by an earlier run with other options: not to be shown as this one's.
    stale = json.loads((PUBLISHED / "toy" / "toy.json").read_text())
    write_json(tmp_path / "toy" / "toy.json", stale)
    assert bellman("reproduce", "all", "--quick", "--out", str(tmp_path), "--json") == 2
    said = capsys.readouterr()
    assert "toy: no data for toy" in said.err
    assert "Traceback" not in said.err
    assert [name for name, _ in calls] == [part.name for part in PARTS]
    figures = json.loads(said.out.splitlines()[-1])
    toy = [c["verdict"] for c in figures["claims"] if "Section 5.1" in c["place"]]
    assert set(toy) == {"not run"}
    calls.clear()
    monkeypatch.setattr(commands, "toy", fake("toy", calls))
    assert bellman("reproduce", "all", "--quick", "--out", str(tmp_path), "--json") == 0
    # What has results is not run again.
    missing = [n for n, _ in calls if (PUBLISHED / n / f"{n}.json").exists()]
    assert missing == ["toy"]
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(figures["claims"]) == len(CLAIMS)
    page = Path(figures["report"]).read_text()
    assert "Ledger of claims" in page
    assert "This is the quick run" in page
    for part in PARTS:
        assert part.title in page


def test_seeds_are_moved_and_the_quick_run_is_thinner(tmp_path, calls):
    bellman("reproduce", "all", "--out", str(tmp_path), "--seed", "5", "--quiet")
    # The published seeds, which nothing was chosen on, each moved by five.
    assert dict(calls) == {
        "linearity": {"seed": 5},
        "equivalence": {"seed": 5},
        "convergence": {"seed": 5},
        "toy": {"seed": 305, "seeds": 3},
        "tabular": {"seed": 1305, "seeds": 5},
        "frozenlake": {"seed": 5, "seeds": 3},
        "cartpole": {"seed": 4305, "seeds": 10},
        "chain": {"seed": 5},
        "mnist": {"seed": 905, "seeds": 3},
        "ablation": {"seed": 1105, "seeds": 3},
    }
    calls.clear()
    bellman("reproduce", "all", "--quick", "--out", str(tmp_path), "--quiet")
    quick = dict(calls)
    assert quick["tabular"] == {
        "seed": 1300,
        "seeds": 1,
        "tables": "abalone,wine",
        "models": "bellman,ddpm,stabilised,interpolation",
        "max_iter": 1500,
    }
    assert quick["cartpole"] == {
        "seed": 4300,
        "seeds": 2,
        "steps": 30_000,
        "algos": "bellman,bellman-paper,c51",
    }
    assert all(options.get("seeds", 1) <= 2 for options in quick.values())


def test_some_parts_are_run_and_the_others_kept(tmp_path, calls, capsys):
    everything = ["reproduce", "all", "--out", str(tmp_path), "--json"]
    assert bellman(*everything, "--parts", "chain,toy") == 0
    assert [name for name, _ in calls] == ["toy", "chain"]
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {c["verdict"] for c in figures["claims"] if c["place"] == "Theorem 4.1"} == {"not run"}
    assert bellman(*everything, "--parts", "convergence") == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(figures["runs"]) == {"toy", "chain", "convergence"}
    assert bellman(*everything, "--parts", "nothing") == 2
    assert "choose different names from" in capsys.readouterr().err.replace("\n", " ")


def test_a_part_that_was_stopped_keeps_its_time(tmp_path, calls, monkeypatch):
    def stopped(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, PARTS[0].name, stopped)
    runs = {}
    with pytest.raises(KeyboardInterrupt):
        reproduce_all._run(PARTS[0], tmp_path, True, 0, True, runs)
    assert runs[PARTS[0].name]["spent"] > 0
    assert json.loads((tmp_path / "all.json").read_text()) == runs
