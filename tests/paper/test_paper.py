"""The whole paper: the ledger's verdicts, and one command for all experiments."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from bellman_diffusion.cli import main
from bellman_diffusion.errors import DataMissingError
from bellman_diffusion.paper import experiment as registry
from bellman_diffusion.paper import read_summary, run, run_paper
from bellman_diffusion.paper.claims import verdict_counts
from bellman_diffusion.paper.experiment import Options, find_experiment
from bellman_diffusion.paper.experiments import equivalence
from bellman_diffusion.paper.experiments.equivalence import pairs_needed
from bellman_diffusion.paper.report import ledger_rows
from bellman_diffusion.training.files import write_json
from tests.paper.helpers import PAPER, PUBLISHED, findings, published_json, report_of, workplace

VERDICTS = {"reproduced", "better", "not reproduced", "claim wrong"}
N_CLAIMS = sum(len(experiment.claims) for experiment in PAPER)


def bellman(*arguments):
    with mock.patch.object(sys, "argv", ["bellman", *arguments]), pytest.raises(SystemExit) as stop:
        main.run()
    return stop.value.code


def test_field_matching_losses_agree_as_epsilon_falls(tmp_path):
    """Propositions 3.1 and 3.2 hold; the kernel on projections is another loss."""
    summary = equivalence.run(Options(), workplace(tmp_path))
    first, *_, last = summary.rows
    assert last.gradient < 0.005
    assert last.scalar < 0.005
    # Slices are drawn: a hundredth of the loss's spread is left.
    assert last.sliced < 0.01
    assert first.gradient > 10 * last.gradient
    assert last.projected_scalar > 0.3
    for found in summary.divergences.values():
        assert found.itself < 1e-12
        assert found.least_of_others > 1e-6
        assert found.quadratic < 0.01
    assert "Field matching" in report_of("equivalence", summary, tmp_path)


@pytest.mark.parametrize("dim", [1, 3])
def test_pairs_for_a_kernel_are_those_of_its_variance(dim):
    """Against a million draws: Var κ / (E κ)² is a hundredth of the pairs."""
    gap = np.sqrt(2) * np.random.default_rng(0).standard_normal((1_000_000, dim))
    kernel = np.exp(-0.5 * np.sum(gap**2, axis=1) / 0.5)
    wanted = np.var(kernel) / np.mean(kernel) ** 2 / 0.01
    assert pairs_needed(dim, 2.0, 0.5) == pytest.approx(wanted, rel=0.02)


def test_every_experiment_of_the_paper_has_claims():
    assert N_CLAIMS == 32
    for experiment in PAPER:
        assert experiment.claims, experiment.name


def test_without_results_nothing_is_claimed():
    assert verdict_counts(ledger_rows({})) == {"not run": N_CLAIMS}


def test_published_results_decide_every_claim():
    summaries = {e.name: read_summary(e, PUBLISHED / e.name) for e in PAPER}
    for row in ledger_rows(summaries):
        assert row.finding.verdict in VERDICTS, row
        assert row.finding.evidence.endswith(".")


@pytest.mark.parametrize("experiment", PAPER, ids=lambda experiment: experiment.name)
def test_a_summary_writes_the_json_that_it_read(experiment):
    values = published_json(experiment.name)
    summary = experiment.summary.from_json(values)
    assert experiment.summary.from_json(json.loads(json.dumps(summary.to_json()))) == summary


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("cartpole", ("best", "bellman-paper", "relapses")),
        ("cartpole", ("best", "bellman", "median_steps")),
        ("cartpole", ("best", "c51", "median_steps")),
        ("toy", ("moons", "w1")),
        ("toy", ("weight_errors",)),
        ("toy", ("moons", "paper")),
        ("toy", ("moons", "paper", "w1")),
    ],
)
def test_figures_that_a_thinned_run_lacks_are_no_errors(name, path):
    node = summary = published_json(name)
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = None
    for text, finding in findings(name, summary).items():
        assert finding.verdict in VERDICTS | {"not run"}, text
        assert "None" not in finding.evidence + finding.ours


def test_algorithms_that_a_thinned_run_lacks_are_no_errors():
    summary = published_json("cartpole")
    for setting in ("plain", "best"):
        del summary[setting]["bellman-paper"]
    assert {f.verdict for f in findings("cartpole", summary).values()} == {"not run"}


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
    summary = published_json("cartpole")
    summary["seeds"] = list(range(len(ours)))
    for setting in ("plain", "best"):
        summary[setting] = {name: summary[setting][name] | row[name] for name in row}
    return findings("cartpole", summary)["Learns faster than C51"]


def test_speed_is_claimed_only_if_significant():
    never = faster((5, 5, 5, 5, 6), (None,) * 5)
    assert never.verdict == "better"
    assert "C51 never" in never.evidence
    assert "C51's median seed never gets there" in never.ours
    assert "∞" not in never.ours
    assert faster((5, 5, 5, 5, 5), (7, 8, 8, 9, 9), paper=(5,) * 5).verdict == "reproduced"
    # Medians differ by half; so do the seeds.
    assert faster((4, 4, 6, 9, 9), (5, 5, 9, 10, 10)).verdict == "not reproduced"
    assert faster((None,) * 5, (None,) * 5).verdict == "not reproduced"
    # An interval over few seeds says nothing.
    few = faster((5, 5, 5, 5, 6)[:3], (7, 8, 8, 9, 9)[:3], paper=(None,) * 3)
    assert few.verdict == "not run"


def table_1(ours, ddpm):
    """The verdict by MMD where Parkinsons has these figures, seed by seed."""
    summary = published_json("tabular")
    for name, values in (("bellman", ours), ("ddpm", ddpm)):
        cells = [{"mmd": float(value), "seconds": 1.0} for value in values]
        summary["parkinsons"][name] |= {"per_seed": cells, "mmd": float(np.mean(values))}
    return findings("tabular", summary)["and by MMD"]


def test_tables_are_compared_seed_by_seed():
    """A model that is farther by one on every split is farther, however much splits differ."""
    splits = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
    assert table_1(splits, splits).verdict == "reproduced"
    farther = table_1(splits + np.array([1.4, 1.5, 1.6, 1.5, 1.5]), splits)
    assert farther.verdict == "not reproduced"
    assert "significantly farther on 1" in farther.ours


def test_published_results_are_those_of_the_full_run():
    """Results in the repository come from `bellman reproduce all`, which noted commands and times."""
    runs = run.read_runs(PUBLISHED)
    for experiment in PAPER:
        options = experiment.options_of(False)
        assert runs[experiment.name].command == experiment.command(options), experiment.name
        assert runs[experiment.name].seconds > 0
        if "seeds" in experiment.published:
            assert published_json(experiment.name)["seeds"] == list(options.all_seeds)


@pytest.fixture
def calls(monkeypatch):
    """Experiments that take no time: they bring the published results."""
    found = []

    def fake(experiment):
        def run(options, work):
            found.append((experiment.name, options))
            if experiment.name in failing:
                raise DataMissingError(f"no data for {experiment.name}")
            return experiment.summary.from_json(published_json(experiment.name))

        # The pictures are the published ones.
        def sections(summary, figures):
            return experiment.sections(summary, PUBLISHED / experiment.name / "figures")

        return replace(experiment, run=run, sections=sections)

    failing = set()
    fakes = [fake(experiment) for experiment in PAPER]
    for module in (run, "bellman_diffusion.paper.report", "bellman_diffusion.cli.reproduce"):
        name = f"{module}.all_experiments" if isinstance(module, str) else None
        if name:
            monkeypatch.setattr(name, lambda: fakes)
        else:
            monkeypatch.setattr(module, "all_experiments", lambda: fakes)
    return found, failing


def test_all_runs_every_experiment_once_and_continues_where_it_stopped(tmp_path, calls, capsys):
    found, failing = calls
    failing.add("toy")
    # Left by an earlier run with other options: not to be shown as this one's.
    write_json(tmp_path / "toy" / "toy.json", published_json("toy"))
    assert bellman("reproduce", "all", "--quick", "--out", str(tmp_path), "--json") == 2
    said = capsys.readouterr()
    assert "toy: no data for toy" in said.err
    assert "Traceback" not in said.err
    assert [name for name, _ in found] == [experiment.name for experiment in PAPER]
    figures = json.loads(said.out.splitlines()[-1])
    toy = [c["verdict"] for c in figures["claims"] if "Section 5.1" in c["place"]]
    assert set(toy) == {"not run"}
    found.clear()
    failing.clear()
    assert bellman("reproduce", "all", "--quick", "--out", str(tmp_path), "--json") == 0
    # What has results is not run again.
    assert [name for name, _ in found] == ["toy"]
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(figures["claims"]) == N_CLAIMS
    page = Path(figures["report"]).read_text()
    assert "Ledger of claims" in page
    assert "This is the quick run" in page
    for experiment in PAPER:
        assert experiment.title in page


def test_seeds_are_moved_and_the_quick_run_is_thinner(tmp_path, calls):
    found, _ = calls
    bellman("reproduce", "all", "--out", str(tmp_path), "--seed", "5", "--quiet")
    # The published seeds, on which no setting was tuned, each moved by five.
    seeds = {name: (options.seed, getattr(options, "seeds", 1)) for name, options in found}
    assert seeds == {
        "linearity": (5, 1),
        "equivalence": (5, 1),
        "convergence": (5, 1),
        "toy": (305, 3),
        "tabular": (1305, 5),
        "frozenlake": (5, 3),
        "cartpole": (4305, 10),
        "chain": (5, 1),
        "mnist": (905, 3),
        "ablation": (1105, 3),
    }
    found.clear()
    bellman("reproduce", "all", "--quick", "--out", str(tmp_path), "--quiet")
    quick = dict(found)
    table, cart = quick["tabular"], quick["cartpole"]
    assert (table.seed, table.seeds, table.tables) == (1300, 1, "abalone,wine")
    assert (table.models, table.max_iter) == ("bellman,ddpm,stabilised,interpolation", 1500)
    assert (cart.seed, cart.seeds, cart.steps) == (4300, 2, 30_000)
    assert cart.algos == "bellman,bellman-paper,c51"
    assert all(getattr(options, "seeds", 1) <= 2 for options in quick.values())


def test_some_experiments_are_run_and_the_others_kept(tmp_path, calls, capsys):
    found, _ = calls
    everything = ["reproduce", "all", "--out", str(tmp_path), "--json"]
    assert bellman(*everything, "--parts", "chain,toy") == 0
    assert [name for name, _ in found] == ["toy", "chain"]
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {c["verdict"] for c in figures["claims"] if c["place"] == "Theorem 4.1"} == {"not run"}
    assert bellman(*everything, "--parts", "convergence") == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(figures["runs"]) == {"toy", "chain", "convergence"}
    assert bellman(*everything, "--parts", "nothing") == 2
    assert "choose different names from" in capsys.readouterr().err.replace("\n", " ")


def test_an_experiment_that_was_stopped_keeps_its_time(tmp_path, monkeypatch):
    def stopped(options, work):
        raise KeyboardInterrupt

    first = replace(PAPER[0], run=stopped)
    monkeypatch.setattr(run, "all_experiments", lambda: [first])
    with pytest.raises(KeyboardInterrupt):
        run_paper(tmp_path, [first.name], quick=True, shift=0, quiet=True)
    assert run.read_runs(tmp_path)[first.name].spent > 0


def test_the_command_of_an_experiment_has_its_options_and_limits(tmp_path, capsys):
    assert bellman("reproduce", "chain", "--largest", "3") == 2
    assert bellman("reproduce", "toy", "--models", "nothing", "--out", str(tmp_path)) == 2
    assert "choose different names from default" in capsys.readouterr().err.replace("\n", " ")
    assert not list(tmp_path.iterdir())
    assert bellman("reproduce", "equivalence", "--out", str(tmp_path), "--json") == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(figures["rows"]) == 4
    assert Path(figures["report"]).exists()


def test_an_unknown_experiment_is_named_with_the_known_ones():
    with pytest.raises(registry.InvalidInputError, match="choose linearity"):
        find_experiment("nothing")
