"""`bellman fit`, `bellman sample` and `bellman evaluate` as a user calls them."""

import json

import pandas as pd
import pytest

from tests.cli.test_cli import call
from tests.tables.frames import passengers

QUICK = ("--set", "max_iter=100", "--set", "width=16", "--transform", "plain")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "passengers.csv"
    passengers(300).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    with pytest.MonkeyPatch.context() as patch:
        assert call(patch, "fit", str(table), "-o", str(folder), *QUICK, "--quiet") == 0
    return folder


def last_json(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_fit_says_what_it_found(monkeypatch, capsys, table, tmp_path):
    arguments = ("fit", str(table), "-o", str(tmp_path), *QUICK, "--quiet", "--json")
    assert call(monkeypatch, *arguments, "--type", "Pclass=category", "--drop", "Ship") == 0
    figures = last_json(capsys)
    kinds = {column["name"]: column["kind"] for column in figures["columns"]}
    assert kinds["Pclass"] == "category"
    assert kinds["Day"] == "date"
    assert "Ship" not in kinds
    for name in ("config.json", "metrics.jsonl", "model.bellman", "figures.json"):
        assert (tmp_path / name).exists()


def test_a_fitted_model_is_fitted_again_only_with_the_same_settings(
    monkeypatch, capsys, table, model
):
    assert call(monkeypatch, "fit", str(table), "-o", str(model), *QUICK, "--quiet") == 0
    changed = ("--set", "max_iter=50", "--set", "width=16", "--transform", "plain")
    assert call(monkeypatch, "fit", str(table), "-o", str(model), *changed, "--quiet") == 2
    assert "another configuration" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_are_written_in_the_tables_form(monkeypatch, table, model, tmp_path, ending):
    out = tmp_path / f"rows.{ending}"
    assert call(monkeypatch, "sample", str(model), "-n", "50", "-o", str(out), "--quiet") == 0
    rows = pd.read_csv(out) if ending == "csv" else pd.read_parquet(out)
    assert len(rows) == 50
    assert list(rows.columns) == list(pd.read_csv(table).columns)


def test_conditions_are_met_and_explained(monkeypatch, capsys, model):
    where = ("--where", "Sex=male, Pclass=3")
    assert call(monkeypatch, "sample", str(model), "-n", "5", *where) == 0
    out, err = capsys.readouterr()
    assert out.count("male") == 5
    assert "by rejection: Sex, Pclass;" in err
    assert call(monkeypatch, "sample", str(model), "-n", "5", *where, "--json", "--quiet") == 0
    figures = last_json(capsys)
    assert figures["rejected_by"] == ["Sex", "Pclass"]
    assert figures["tries"] >= 5


def test_evaluate_writes_a_page_and_figures(monkeypatch, capsys, table, model, tmp_path):
    arguments = ("evaluate", str(model), str(table), "-o", str(tmp_path), "--json", "--quiet")
    assert call(monkeypatch, *arguments, "--target", "Survived") == 0
    figures = last_json(capsys)
    assert figures.keys() >= {"w1", "w1_floor", "w2", "mmd2", "tstr", "dcr_share"}
    assert 0 <= figures["dcr_share"] <= 1
    page = (tmp_path / "evaluation.html").read_text()
    assert page.count("data:image/png") == 2
    assert "http://" not in page
    assert "Pairs of columns" in page


def test_evaluate_takes_other_rows(monkeypatch, capsys, table, model, tmp_path):
    other = tmp_path / "other.csv"
    passengers(100, seed=5).to_csv(other, index=False)
    arguments = ("evaluate", str(model), str(other), "-o", str(tmp_path), "--json", "--quiet")
    assert call(monkeypatch, *arguments) == 0
    assert last_json(capsys)["dcr_share"] is None
    assert call(monkeypatch, *arguments, "--learned", str(table)) == 0
    assert last_json(capsys)["dcr_share"] is not None


def bad_tables():
    return {
        "empty": (b"", "is empty"),
        "header only": (b"a,b\n", "has no rows"),
        "one row": (b"a,b\n1,2\n", "at least 2"),
        "all missing": (b"a,b\n1,\n2,\n3,\n", "is empty in every row"),
        "ragged": (b"a,b\n1,2\n3,4,5\n", "has 3 fields where the first has 2"),
        "twice": (b"a,a\n1,2\n3,4\n", "more than one column called 'a'"),
        "huge": (b"a,b\n1e300,2\n3,4\n", "have no use as numbers"),
        "text among numbers": (
            b"a\n" + b"1.5\n2.5\n3.5\n" * 5 + b"four\n",
            "holds numbers, but 'four'",
        ),
        "latin": ("näme\nä\nö\n".encode("latin-1"), "--encoding latin-1"),
        "constant": (b"a,b\n1,2\n1,2\n1,2\n", "one value only"),
        "binary": (b"\0\1\2\3", "binary data"),
    }


@pytest.mark.parametrize("name", bad_tables())
def test_bad_tables_are_one_line_and_leave_nothing(monkeypatch, capsys, tmp_path, name):
    content, message = bad_tables()[name]
    path, out = tmp_path / "table.csv", tmp_path / "model"
    path.write_bytes(content)
    assert call(monkeypatch, "fit", str(path), "-o", str(out), *QUICK, "--quiet") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_one_column_is_enough(monkeypatch, capsys, tmp_path):
    path, out = tmp_path / "table.csv", tmp_path / "model"
    path.write_text("a\n" + "".join(f"{k % 9}\n" for k in range(120)))
    assert call(monkeypatch, "fit", str(path), "-o", str(out), *QUICK, "--quiet") == 0
    arguments = ("evaluate", str(out), str(path), "-o", str(tmp_path), "--json", "--quiet")
    assert call(monkeypatch, *arguments) == 0
    assert last_json(capsys)["tstr"] is None
    assert call(monkeypatch, "evaluate", str(out)) == 2
    assert "name a table" in capsys.readouterr().err


def test_a_model_is_not_asked_for_columns_it_never_saw(monkeypatch, capsys, model, tmp_path):
    other = tmp_path / "other.csv"
    passengers(50).drop(columns="Age").to_csv(other, index=False)
    assert call(monkeypatch, "evaluate", str(model), str(other), "--quiet") == 2
    assert "lacks columns of the model: 'Age'" in capsys.readouterr().err
    assert call(monkeypatch, "sample", str(model), "--where", "Cabin=3") == 2
    assert "there is no column 'Cabin'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "speed=3"), "there is no setting 'speed'"),
        (("--drop", "Cabin"), "there is no such column"),
        (("--type", "Sex=number"), "cannot be read as number"),
        (("--type", "Sex=colour"), "is none of"),
        (("--hold-out", "0.9"), "must lie in"),
        (("--set", "max_iter=abc"), "max_iter must be a number"),
        (("--separator", ";"), "give --separator ','"),
    ],
)
def test_bad_options_say_what_is_wrong(monkeypatch, capsys, table, tmp_path, arguments, message):
    out = tmp_path / "model"
    assert call(monkeypatch, "fit", str(table), "-o", str(out), "--quiet", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_wrong_files_are_recognised(monkeypatch, capsys, table, tmp_path):
    assert call(monkeypatch, "sample", str(tmp_path / "nothing")) == 2
    assert "cannot read" in capsys.readouterr().err
    assert call(monkeypatch, "sample", str(table)) == 2
    assert "not a file of bellman-diffusion" in capsys.readouterr().err
