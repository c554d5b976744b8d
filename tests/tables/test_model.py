"""Fit, sample, conditions, save and load."""

import numpy as np
import pandas as pd
import pytest

from bellman_diffusion.errors import CheckpointError, InvalidInputError
from bellman_diffusion.recipe import make_recipe
from bellman_diffusion.tables import TableModel, find_schema
from bellman_diffusion.tables.choice import choose_transform
from bellman_diffusion.tables.conditions import read_conditions
from tests.tables.frames import passengers


@pytest.fixture(scope="module")
def fitted():
    """Learned well enough for rates to be right."""
    return TableModel(max_iter=1200, width=128, transform="plain").fit(passengers(1500))


@pytest.fixture(scope="module")
def quick():
    return TableModel(max_iter=50, width=16, transform="plain").fit(passengers(200))


@pytest.mark.quality
def test_a_mixed_table_keeps_its_form_and_its_rates(fitted):
    real, made = passengers(1500), fitted.sample(4000, random_state=1)
    assert list(made.columns) == list(real.columns)
    assert made.dtypes.to_dict() == real.dtypes.to_dict()
    for name in real.columns:
        assert made[name].isna().mean() == pytest.approx(real[name].isna().mean(), abs=0.02)
    for name in ("Pclass", "Sex", "Survived", "Embarked", "Ship"):
        assert set(made[name].dropna()) == set(real[name].dropna())
    for name in ("Age", "Fare", "Siblings"):
        assert made[name].min() >= real[name].min()
        assert made[name].max() <= real[name].max()
    assert np.all(made["Siblings"] == made["Siblings"].round())
    # Written as the table has them.
    assert made["Day"].str.fullmatch(r"\d\d/\d\d/20\d\d").all()


@pytest.mark.quality
def test_columns_depend_on_each_other_as_they_do(fitted):
    made = fitted.sample(4000, random_state=2)
    survived = made.groupby("Sex")["Survived"].mean()
    # True: 0.75 and 0.2. Tolerance: what 1,350 rows and a short fit leave.
    assert survived["female"] == pytest.approx(0.75, abs=0.1)
    assert survived["male"] == pytest.approx(0.2, abs=0.1)
    gaps = made.groupby("Pclass")["Age"].apply(lambda age: age.isna().mean())
    assert gaps[3] > gaps[1] + 0.1


@pytest.mark.quality
def test_common_conditions_throw_rows_away(fitted):
    found = fitted.sample_where("Sex=female, Fare>10, Pclass!=3", 200)
    assert len(found.frame) == 200
    assert found.conditioned == []
    assert found.rejected_by == ["Sex", "Fare", "Pclass"]
    assert found.tries > 200
    assert set(found.frame["Sex"]) == {"female"}
    assert found.frame["Fare"].min() > 10
    assert 3 not in set(found.frame["Pclass"])


@pytest.mark.quality
def test_rare_values_are_given_to_the_model(fitted):
    found = fitted.sample_where("Age=33.3, Day=24/12/2020, Fare<20", 20)
    assert found.conditioned == ["Age", "Day"]
    assert found.rejected_by == ["Fare"]
    assert set(found.frame["Age"]) == {33.3}
    assert set(found.frame["Day"]) == {"24/12/2020"}
    assert found.frame["Fare"].max() < 20
    assert set(found.frame["Sex"]) == {"female", "male"}


def test_conditions_that_no_row_fulfils_end(quick, monkeypatch):
    monkeypatch.setattr("bellman_diffusion.tables.model._LEAST_DRAWS", 1000)
    with pytest.raises(InvalidInputError, match="loosen the conditions"):
        quick.sample(2, where="Siblings>1, Siblings<1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no condition"),
        ("Sex", "is no condition"),
        ("Size=3", "there is no column 'Size'"),
        ("Sex>female", "have no order"),
        ("Sex=neither", "has no 'neither': it has 'female', 'male'"),
        ("Age>old", "cannot be read as number"),
        ("Age=1000", "lies between"),
        ("Day=tomorrow", "cannot be read as date"),
    ],
)
def test_bad_conditions_say_what_is_wrong(quick, text, message):
    with pytest.raises(InvalidInputError, match=message):
        read_conditions(text, quick.schema_)


def test_conditions_may_be_quoted():
    frame = pd.DataFrame({"a, b": ["x", "y, z"] * 10, "n": range(20)})
    model = TableModel(max_iter=50, width=16, transform="plain").fit(frame)
    first, second = read_conditions('"a, b=y, z", n>=3', model.schema_)
    assert (first.value, second.sign, second.value) == ("y, z", ">=", 3.0)
    assert first.holds(frame).sum() == 10
    assert second.holds(frame).sum() == 17


def test_a_saved_model_draws_the_same_rows(quick, tmp_path):
    quick.save(tmp_path / "model")
    loaded = TableModel.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.sample(20), quick.sample(20))
    assert b"Titanic" not in (tmp_path / "model").read_bytes().split(b"\n", 1)[1]
    with pytest.raises(CheckpointError, match="cannot read"):
        TableModel.load(tmp_path / "nothing")


def test_the_same_seed_gives_the_same_rows(quick):
    pd.testing.assert_frame_equal(quick.sample(5, random_state=3), quick.sample(5, random_state=3))
    assert not quick.sample(5, random_state=3).equals(quick.sample(5, random_state=4))


def test_rows_held_out_are_others_than_those_learned_from(quick):
    learned, held_out = quick.split(200)
    assert len(held_out) == 20
    assert sorted([*learned, *held_out]) == list(range(200))


def test_a_stopped_fit_goes_on_and_ends_the_same(tmp_path):
    frame = passengers(120)
    settings = {"width": 16, "transform": "plain", "max_iter": 150}
    whole = TableModel(**settings).fit(frame)

    class StopError(Exception):
        pass

    class Stopping:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def update(self, step, n_steps, metrics):
            if step >= 100:
                raise StopError

    with pytest.raises(StopError):
        TableModel(**settings, run_dir=tmp_path).fit(frame, progress=Stopping())
    resumed = TableModel(**settings, run_dir=tmp_path).fit(frame)
    pd.testing.assert_frame_equal(resumed.sample(10), whole.sample(10))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"transform": "log"}, "choose auto"), ({"hold_out": 0.9}, r"must lie in \[0, 0.5\]")],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        TableModel(**settings)


def test_tiny_tables_can_be_learned():
    frame = pd.DataFrame({"a": [1.5, 2.5, 3.75], "b": ["x", "y", "x"]})
    made = TableModel(max_iter=50, width=16).fit(frame).sample(10)
    assert set(made["b"]) <= {"x", "y"}
    assert made["a"].between(1.5, 3.75).all()


def test_a_category_with_ten_thousand_levels_round_trips():
    names = [f"user {i % 10_000}" for i in range(12_000)]
    frame = pd.DataFrame({"name": names, "x": np.arange(12_000) % 7})
    made = TableModel(max_iter=50, width=16, kinds={"name": "category"}).fit(frame).sample(100)
    assert set(made["name"]) <= set(names)


@pytest.mark.quality
def test_heavy_tails_are_transformed_by_trial():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": np.exp(2.5 * rng.normal(size=800)), "y": rng.normal(size=800)})
    model = TableModel(max_iter=600, width=64).fit(frame)
    assert model.transform_ in ("power", "quantile")
    assert (model.encoder_.codings[1].number or None).transform == "plain"
    made = model.sample(4000, random_state=1)["x"]
    assert made.median() == pytest.approx(frame["x"].median(), rel=0.25)


@pytest.mark.quality
def test_a_table_of_categories_alone_keeps_its_levels_and_rates():
    rng = np.random.default_rng(0)
    first = rng.choice(list("abcd"), 1500, p=[0.5, 0.3, 0.15, 0.05])
    frame = pd.DataFrame({"first": first, "same": np.where(first < "c", "low", "high")})
    for k in range(3):
        frame[f"noise {k}"] = rng.choice(list("xyz"), 1500, p=[0.6, 0.3, 0.1])
    made = TableModel(max_iter=1500, width=128).fit(frame).sample(4000, random_state=1)
    for name in frame.columns:
        rates, wanted = (f[name].value_counts(normalize=True) for f in (made, frame))
        assert set(rates.index) == set(wanted.index)
        # 0.02 for what is learned, and as much for what 4,000 draws leave open.
        assert (rates - wanted).abs().max() < 0.04
    agree = np.where(made["first"] < "c", "low", "high") == made["same"]
    assert agree.mean() > 0.97


def test_few_rows_held_out_choose_no_transform():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": np.exp(3 * rng.normal(size=300))})
    schema = find_schema(frame)
    assert schema.heavy_tailed
    # A fit would take minutes.
    recipe = make_recipe(max_iter=1_000_000)
    assert choose_transform(frame, frame.head(49), schema, 0, recipe) == "plain"
