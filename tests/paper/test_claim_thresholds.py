"""Every threshold of the ledger: figures just inside and just outside it, and the verdicts."""

import copy

import pytest

from tests.paper.helpers import PAPER, findings_of_part

YES, BETTER, NO, WRONG = "reproduced", "better", "not reproduced", "claim wrong"


def verdict(part, text, summary):
    """Of the one claim of an experiment whose words begin so."""
    return findings_of_part(part, summary)[text].verdict


def changed(summary, changes):
    """A copy with other figures, each under its path."""
    summary = copy.deepcopy(summary)
    for path, value in changes.items():
        *way, last = path.split("/")
        node = summary
        for key in way:
            node = node[int(key)] if isinstance(node, list) else node[key]
        node[last] = value
    return summary


def check(part, text, summary, changes, wanted):
    assert verdict(part, text, changed(summary, changes)) == wanted


# Section 2 and the theorems

LINEARITY = {
    "curves": {"fields, exact": {"w1_worst": [9e-4]}, "energy, exact": {"w1_worst": [0.11]}}
}


@pytest.mark.parametrize(
    ("fields", "others", "wanted"), [(9e-4, 0.11, YES), (1.1e-3, 0.11, NO), (9e-4, 0.09, NO)]
)
def test_fields_are_linear_below_a_thousandth_where_others_miss_a_tenth(fields, others, wanted):
    curves = {"fields, exact": {"w1_worst": [fields]}, "energy, exact": {"w1_worst": [others]}}
    check("linearity", "Means of densities", LINEARITY, {"curves": curves}, wanted)


EQUIVALENCE = {
    "divergences": {"gradient": {"itself": 9e-10, "least_of_others": 1.1e-9, "quadratic": 0.009}},
    "rows": [
        {
            "epsilon": 0.01,
            "gradient": 0.009,
            "scalar": 0.009,
            "sliced": 0.019,
            "projected_gradient": 0.05,
            "projected_scalar": 0.11,
        }
    ],
    "pairs": [{"projected": 0.9, "whole": 1000.0, "dim": 10}],
}


@pytest.mark.parametrize(
    ("text", "changes", "wanted"),
    [
        ("D_grad and D_id", {}, YES),
        ("D_grad and D_id", {"divergences/gradient/itself": 1.05e-9}, NO),
        ("D_grad and D_id", {"divergences/gradient/least_of_others": 9e-10}, NO),
        ("D_grad and D_id", {"divergences/gradient/quadratic": 0.011}, NO),
        ("The field-matching losses", {}, YES),
        ("The field-matching losses", {"rows/0/gradient": 0.011}, NO),
        ("The field-matching losses", {"rows/0/scalar": 0.011}, NO),
        ("So does the sliced", {}, YES),
        ("So does the sliced", {"rows/0/sliced": 0.021}, NO),
        ("A kernel on projections needs", {}, YES),
        ("A kernel on projections needs", {"pairs/0/projected": 1.1}, NO),
        ("A kernel on projections may", {}, WRONG),
        ("A kernel on projections may", {"rows/0/projected_scalar": 0.09}, YES),
    ],
)
def test_losses_are_equivalent_within_their_thresholds(text, changes, wanted):
    check("equivalence", text, EQUIVALENCE, changes, wanted)


CONVERGENCE = {
    "stationarity": {"normal": 9e-4, "uniform": 1e-5},
    "convergence": {
        "normal": {
            "divergence": [1.0, 0.011],
            "rate_halved": 1.0,
            "rate_end": 0.09,
            "time_end": 50.0,
        },
        "uniform": {"rate_end": 1.0},
    },
    "errors": {
        "rows": [
            {"error": 0.0, "w2": [9.0]},
            {"error": 0.1, "w2": [0.1]},
            {"error": 0.2, "w2": [0.39]},
        ]
    },
    "horizon": {"normal": [{"w2": 0.009, "time": 50.0}]},
}


@pytest.mark.parametrize(
    ("text", "changes", "wanted"),
    [
        ("dx = ∇p dt", {}, YES),
        ("dx = ∇p dt", {"stationarity/normal": 1.1e-3}, NO),
        ("From any start", {}, WRONG),
        ("From any start", {"convergence/normal/rate_end": 0.11}, YES),
        ("From any start", {"convergence/normal/divergence": [1.0, 0.009]}, YES),
        ("With small errors", {}, YES),
        # W2 that is not in proportion to the error says nothing of the claim.
        ("With small errors", {"errors/rows/2/w2": [0.41]}, NO),
        ("With small errors", {"horizon/normal/0/w2": 0.011}, WRONG),
    ],
)
def test_the_dynamics_converge_within_their_thresholds(text, changes, wanted):
    check("convergence", text, CONVERGENCE, changes, wanted)


# Sections 5.1 and 5.2


def toy_model(**changes):
    figures = {
        "w1": 1.4,
        "w1_floor": 1.0,
        "lost": 0.0,
        "scalar_error": 0.24,
        "gradient_error": 0.24,
        "weights": [0.45, 0.45, 0.1],
        "weight_error": 0.049,
        "langevin_w1": 1.5,
        "langevin_lost": 0.0,
    }
    return figures | changes | {"per_seed": [{"w1": 1.4, "w1_floor": 1.0}]}


TOY = {
    **{name: toy_model() | {"paper": toy_model()} for name in ("uniform", "mixture", "moons")},
    "weight_errors": {"one_level": 0.3, "many_levels": 0.049},
}
ACCURATE_FIELDS = "Estimates the density"


@pytest.mark.parametrize(
    ("text", "changes", "wanted"),
    [
        (ACCURATE_FIELDS, {}, YES),
        (ACCURATE_FIELDS, {"moons/paper/scalar_error": 0.26}, BETTER),
        (ACCURATE_FIELDS, {"mixture/paper/gradient_error": 0.26}, BETTER),
        (ACCURATE_FIELDS, {"moons/scalar_error": 0.26}, NO),
        (ACCURATE_FIELDS, {"mixture/gradient_error": 0.26}, NO),
        # A distribution without a gradient is judged by its density alone.
        (ACCURATE_FIELDS, {"uniform/gradient_error": None}, YES),
        ("Learns two moons", {}, YES),
        ("Learns two moons", {"moons/paper/w1": 1.51}, BETTER),
        ("Learns two moons", {"moons/paper/w1": None}, BETTER),
        ("Learns two moons", {"moons/paper/w1": 1.51, "moons/w1": 1.51}, NO),
        ("Learns a uniform distribution", {"uniform/paper/w1": 1.49}, YES),
        ("Learns a uniform distribution", {"uniform/paper/w1": 1.51}, BETTER),
        ("Learns a mixture", {}, YES),
        ("Learns a mixture", {"mixture/paper/weight_error": 0.051}, BETTER),
        (
            "Learns a mixture",
            {"mixture/paper/weight_error": 0.051, "mixture/weight_error": 0.051},
            NO,
        ),
        ("Score-based models miss", {}, WRONG),
        ("Score-based models miss", {"weight_errors/many_levels": 0.051}, YES),
        ("Score-based models miss", {"weight_errors": None}, "not run"),
        ("Langevin dynamics on g/s", {}, YES),
        ("Langevin dynamics on g/s", {"moons/paper/langevin_w1": 1.39}, NO),
        ("Langevin dynamics on g/s", {"moons/paper/w1": None, "moons/paper/lost": 0.1}, NO),
        (
            "Langevin dynamics on g/s",
            {"moons/paper/w1": None, "moons/paper/langevin_lost": 0.1},
            YES,
        ),
    ],
)
def test_synthetic_sets_are_learned_within_their_thresholds(text, changes, wanted):
    check("toy", text, TOY, changes, wanted)


TABLES = ("abalone", "telemonitoring", "mushroom", "parkinsons", "wine")


def table_cell(value, ratio=1.0):
    cells = [{"w1": value, "mmd": value} for _ in range(3)]
    return {"w1": value, "mmd": value, "w1_over_floor": ratio, "per_seed": cells}


def table_1(ours, recipe=1.4, ddpm=100.0):
    """Table 1 where ours has these distances and DDPM the same one everywhere."""
    summary = {"seeds": [0, 1, 2]}
    for name, value in zip(TABLES, ours, strict=True):
        summary[name] = {
            "bellman": table_cell(value),
            "ddpm": table_cell(ddpm),
            "paper": table_cell(1.0, recipe),
        }
    return summary


@pytest.mark.parametrize("text", ["Competitive with DDPM", "and by MMD"])
@pytest.mark.parametrize(
    ("ours", "recipe", "wanted"),
    [
        # Nearer, by less than 2 %, on three tables of five: as the paper says.
        ((99, 99, 99, 101, 101), 1.49, YES),
        # The recipe as written does not come near: the default is better than that.
        ((99, 99, 99, 101, 101), 1.51, BETTER),
        ((99, 99, 99, 101, 101), None, BETTER),
        # On two tables alone nothing is better, whatever the recipe does.
        ((99, 99, 101, 101, 101), 1.51, YES),
        # Clearly nearer on three is what the paper has; on four it is better.
        ((97.9, 97.9, 97.9, 101, 101), 1.49, YES),
        ((97.9, 97.9, 97.9, 97.9, 101), 1.49, BETTER),
        ((97.9, 97.9, 97.9, 98.1, 101), 1.49, YES),
        # Clearly farther on one; ours is then what 2 % are taken of the other way round.
        ((99, 99, 99, 101, 102.1), 1.49, NO),
        ((97.9, 97.9, 97.9, 97.9, 102.1), 1.49, NO),
    ],
)
def test_tables_are_competitive_within_two_percent_and_three_wins(text, ours, recipe, wanted):
    assert verdict("tabular", text, table_1(ours, recipe)) == wanted


def test_one_split_of_a_table_says_nothing():
    summary = table_1((99,) * 5) | {"seeds": [0]}
    assert verdict("tabular", "Competitive with DDPM", summary) == "not run"


def test_seeds_that_differ_by_more_than_their_gap_leave_a_table_open():
    """Nearer by 10 on average, by −30 to 50 on single splits: Student's margin is 100."""
    summary = table_1((101,) * 4 + (110,))
    cells = [{"w1": 100.0 + gap} for gap in (-30.0, 10.0, 50.0)]
    summary["wine"]["bellman"]["per_seed"] = cells
    assert verdict("tabular", "Competitive with DDPM", summary) == YES
    summary["wine"]["bellman"]["per_seed"] = [{"w1": 110.0 + gap} for gap in (-1.0, 0.0, 1.0)]
    assert verdict("tabular", "Competitive with DDPM", summary) == NO


# Section 5.3


def maze_row(method, n=41, **changes):
    figures = {"w1_worst": 0.04, "mean_error_worst": 0.049, "gradient_error_worst": 0.24}
    return (
        {
            "method": method,
            "n": n,
            "per_seed": [{"w1_worst": 0.04}] if "learned" in method else None,
        }
        | figures
        | changes
    )


MAZE = {
    "mean_at_start": 0.59,
    "mean_next_to_goal": 0.81,
    "rows": [
        maze_row("learned (default)"),
        maze_row("learned (paper)"),
        maze_row("certified cells (default)", w1_worst=0.0009),
        maze_row("L2, plain (the paper)", w1_worst=0.009),
        maze_row("C51", n=11, w1_worst=0.5),
        maze_row("C51", n=41, w1_worst=0.01),
    ],
}
MAZE_MEAN, MAZE_RETURNS = "The expected return shifts", "Return distributions"


@pytest.mark.parametrize(
    ("text", "changes", "wanted"),
    [
        (MAZE_MEAN, {}, YES),
        (MAZE_MEAN, {"mean_at_start": 0.61}, NO),
        (MAZE_MEAN, {"mean_at_start": 0.41}, YES),
        (MAZE_MEAN, {"mean_at_start": 0.39}, NO),
        (MAZE_MEAN, {"mean_next_to_goal": 0.79}, NO),
        (MAZE_MEAN, {"rows/0/mean_error_worst": 0.051}, NO),
        (MAZE_RETURNS, {}, YES),
        (MAZE_RETURNS, {"rows/1/w1_worst": 0.051}, BETTER),
        (MAZE_RETURNS, {"rows/1/gradient_error_worst": 0.26}, BETTER),
        (MAZE_RETURNS, {"rows/0/w1_worst": 0.051}, NO),
        (MAZE_RETURNS, {"rows/0/gradient_error_worst": 0.26}, NO),
        ("Continuous distributions", {}, YES),
        # Less than C51 with as many atoms for the paper's update, or half of it for ours.
        ("Continuous distributions", {"rows/3/w1_worst": 0.011}, BETTER),
        ("Continuous distributions", {"rows/3/w1_worst": 0.011, "rows/2/w1_worst": 0.0051}, NO),
    ],
)
def test_the_maze_is_learned_within_its_thresholds(text, changes, wanted):
    check("frozenlake", text, MAZE, changes, wanted)


def cart_model(steps=(10.0,) * 5, **changes):
    figures = {
        "return_w1": 0.049,
        "scalar_error": 0.24,
        "gradient_error": 0.24,
        "iqm": 476.0,
        "relapses": 0.1,
        "median_steps": 10.0,
        "first_solved": list(steps),
        "first_reached": list(steps),
        "per_seed": {"relapses": [0.10, 0.11, 0.09, 0.10, 0.10]},
    }
    return figures | changes


def cart():
    slow = cart_model((15.5,) * 5)
    slow["per_seed"] = {"relapses": [0.30, 0.31, 0.29, 0.30, 0.30]}
    models = {
        "bellman": cart_model(),
        "c51": slow,
        "bellman-paper": cart_model(),
        "qr-dqn": cart_model(),
    }
    return {"seeds": list(range(5)), "plain": models, "best": copy.deepcopy(models)}


CART_RETURNS, FASTER, MORE_STABLE = "Return distributions", "Learns faster", "and more stably"
END, LINEAR = "Both can reach", "Models that are not linear"


@pytest.mark.parametrize(
    ("text", "changes", "wanted"),
    [
        (CART_RETURNS, {}, YES),
        *(
            (CART_RETURNS, {f"best/{model}/{name}": value}, wanted)
            for model, wanted in (("bellman-paper", BETTER), ("bellman", NO))
            for name, value in (
                ("scalar_error", 0.26),
                ("gradient_error", 0.26),
                ("return_w1", 0.051),
            )
        ),
        (END, {}, YES),
        (END, {"best/bellman-paper/iqm": 474.0}, BETTER),
        (END, {"best/bellman/iqm": 474.0}, NO),
        (END, {"best/c51/iqm": 474.0}, NO),
        (LINEAR, {}, WRONG),
        (LINEAR, {"best/c51/iqm": 474.0}, WRONG),
        (LINEAR, {"best/c51/iqm": 474.0, "best/bellman/iqm": 474.0}, YES),
        (MORE_STABLE, {}, YES),
        (MORE_STABLE, {"best/bellman-paper/relapses": 0.11}, BETTER),
        # Clearly fewer relapses in one setting, clearly more in the other.
        (MORE_STABLE, {"best/bellman/per_seed": {"relapses": [0.50, 0.51, 0.49]}}, NO),
        (MORE_STABLE, {"best/bellman/per_seed": {"relapses": [0.0, 0.9, 0.0]}}, YES),
    ],
)
def test_cart_pole_is_learned_within_its_thresholds(text, changes, wanted):
    check("cartpole", text, cart(), changes, wanted)


@pytest.mark.parametrize(
    ("steps", "paper", "wanted"),
    [(15.0, 10.0, YES), (15.0, 15.0, BETTER), (14.9, 10.0, NO), (150.0, 10.0, YES)],
)
def test_faster_means_one_and_a_half_times_as_fast(steps, paper, wanted):
    """C51's steps over ours, which are 10 for every seed; the paper's networks' too or not."""
    summary = cart()
    for setting in ("plain", "best"):
        summary[setting]["c51"] |= cart_model((steps,) * 5)
        summary[setting]["bellman-paper"] |= cart_model((paper,) * 5)
    assert verdict("cartpole", FASTER, summary) == wanted


def test_faster_in_one_setting_must_not_be_slower_in_the_other():
    summary = cart()
    summary["plain"]["c51"] |= cart_model((9.0,) * 5)
    assert verdict("cartpole", FASTER, summary) == NO
    summary["plain"]["c51"] |= cart_model((10.0,) * 5)
    assert verdict("cartpole", FASTER, summary) == YES


@pytest.mark.parametrize(("n", "wanted"), [(5, YES), (4, "not run")])
def test_fewer_than_five_seeds_say_nothing_of_speed(n, wanted):
    assert verdict("cartpole", FASTER, cart() | {"seeds": list(range(n))}) == wanted


CHAIN = {
    "exponent": {"fresh trajectories": 1.81, "whole trajectories, shared": 1.2, "one step": 1.3}
}


@pytest.mark.parametrize(
    ("fresh", "one", "wanted"),
    [(1.81, 1.3, YES), (1.79, 1.0, NO), (1.81, 1.32, NO), (2.4, 1.8, YES)],
)
def test_trajectories_cost_about_the_square_and_one_step_updates_less(fresh, one, wanted):
    changes = {"exponent/fresh trajectories": fresh, "exponent/one step": one}
    check("chain", "Full trajectories cost", CHAIN, changes, wanted)


# Appendix F

MNIST = {
    "accuracy": 0.99,
    "floor": {"frechet": 1.0},
    "bellman": {
        "confident": 0.851,
        "histogram_error": 0.029,
        "frechet": 9.9,
        "per_seed": [{"frechet": 9.9}],
    },
    "ddpm": {"frechet": 10.0},
    "prior": {"frechet": 100.0},
}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, YES),
        ({"bellman/confident": 0.849}, NO),
        ({"bellman/histogram_error": 0.031}, NO),
        ({"bellman/frechet": 10.1}, NO),
        ({"prior/frechet": 9.8}, NO),
    ],
)
def test_digits_are_of_quality_within_their_thresholds(changes, wanted):
    check("mnist", "Most latent MNIST", MNIST, changes, wanted)


def ablation(best_epsilon=0.1, gain=0.05, slices=0.05, unsliced=0.05, spread=0.001):
    """Tables where one ε, three slices and slices at all bring so much, with so much between seeds."""

    def cell(w1):
        cells = [{"w1": w1 * (1 + d)} for d in (-spread, 0.0, spread)]
        return {"w1": w1, "w1_over_floor": w1, "failed": 0, "per_seed": cells}

    points = {f"epsilon {e:g}, n 1": cell(1.0) for e in (0.5, 1, 0.1, 0.01)}
    points[f"epsilon {best_epsilon:g}, n 1"] = cell(1.0 - gain)
    one = points["epsilon 0.5, n 1"]["w1"]
    points |= {"epsilon 0.5, n 2": cell(one), "epsilon 0.5, n 3": cell(one * (1 - slices))}
    whole = {"epsilon 0.5, n 1": cell(one / (1 - unsliced))}
    # One seed gains more than the others: the mean is above zero, and how far the seeds leave open.
    points[f"epsilon {best_epsilon:g}, n 1"]["per_seed"][0]["w1"] *= 1 - spread
    points["epsilon 0.5, n 3"]["per_seed"][0]["w1"] *= 1 - spread
    whole["epsilon 0.5, n 1"]["per_seed"][0]["w1"] *= 1 + spread
    return {
        name: {"paper": points, "default": points, "unsliced": whole}
        for name in ("abalone", "telemonitoring")
    }


@pytest.mark.parametrize(
    ("best", "spread", "wanted"),
    [(0.1, 0.001, YES), (0.5, 0.001, YES), (0.01, 0.001, NO), (1.0, 0.001, NO), (0.1, 0.5, NO)],
)
def test_an_epsilon_in_between_is_best_if_it_beats_both_ends(best, spread, wanted):
    assert verdict("ablation", "ε in between", ablation(best, spread=spread)) == wanted


@pytest.mark.parametrize(
    ("text", "name"), [("More slices help", "slices"), ("Slices make", "unsliced")]
)
@pytest.mark.parametrize(
    ("size", "spread", "wanted"), [(0.05, 0.001, YES), (0.05, 0.5, NO), (-0.05, 0.001, NO)]
)
def test_slices_help_if_they_do_beyond_what_seeds_explain(text, name, size, spread, wanted):
    assert verdict("ablation", text, ablation(**{name: size}, spread=spread)) == wanted


def test_no_claim_is_left_without_a_threshold_test():
    """Two claims are known without a run: no figure can change their verdicts."""
    fixed = {"p_z(x) is the mean", "Falls short of diffusion"}
    tested = {
        *("Means of densities", "D_grad", "The field-matching", "So does the sliced"),
        *("A kernel on projections needs", "A kernel on projections may", "dx = ∇p", "From any"),
        *("With small errors", ACCURATE_FIELDS, "Langevin", "Learns a uniform", "Learns a mixture"),
        *("Score-based", "Learns two moons", "Competitive", "and by MMD", MAZE_MEAN, MAZE_RETURNS),
        *(
            FASTER,
            MORE_STABLE,
            END,
            LINEAR,
            "Continuous distributions",
            "Full trajectories",
            "Most latent",
        ),
        *("ε in between", "More slices", "Slices make"),
    }
    for claim in (claim for experiment in PAPER for claim in experiment.claims):
        assert any(claim.text.startswith(text) for text in tested | fixed), claim.text
