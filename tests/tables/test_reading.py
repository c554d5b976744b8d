"""Files of tables: what is found by itself, and what is said of a file that cannot be used."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.tables import read_table, write_table


def file(tmp_path, content, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(tmp_path, separator):
    rows = [["a", "b"], ["1", "2.5"], ["3", "x"]]
    content = "\n".join(separator.join(row) for row in rows) + "\n"
    frame = read_table(file(tmp_path, content))
    assert list(frame.columns) == ["a", "b"]
    assert frame["a"].tolist() == [1, 3]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_written_is_read_again(tmp_path, ending):
    frame = pd.DataFrame({"n": [1, 2], "x": [0.1, None], "t": ["a,b", 'c"d']})
    path = tmp_path / f"out.{ending}"
    write_table(frame, path)
    pd.testing.assert_frame_equal(read_table(path), frame)


def test_marks_of_missing_values(tmp_path):
    frame = read_table(file(tmp_path, "a,b\n1,?\n,2\nNA,3\n"), missing=("?",))
    assert frame.isna().sum().tolist() == [2, 1]


def test_a_file_without_header(tmp_path):
    frame = read_table(file(tmp_path, "1,2\n3,4\n"), header=False)
    assert list(frame.columns) == ["column 1", "column 2"]
    assert len(frame) == 2


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    assert list(read_table(file(tmp_path, b"\xef\xbb\xbfa,b\n1,2\n")).columns) == ["a", "b"]


def test_one_column_keeps_its_missing_values(tmp_path):
    assert read_table(file(tmp_path, "a\n1\n\n3\n"))["a"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "has no rows"),
        (b"a,b\n1,2\n1,2,3\n", "line 3 .* has 3 fields where the first has 2"),
        (b"a,b\n1,2\n1\n", "line 3 .* has 1 fields where the first has 2"),
        (b'a,b\n"1,5",2\n"1",2,3\n', "line 3 .* has 3 fields"),
        (b"a,b,a\n1,2,3\n", "more than one column called 'a'"),
        (b"a,b\n\xe9,2\n", "not utf-8: byte 4 in line 2 .* --encoding latin-1"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, content, message):
    with pytest.raises(InvalidInputError, match=message):
        read_table(file(tmp_path, content))


def test_missing_files_folders_and_encodings_are_named(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot read"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InvalidInputError, match="cannot read"):
        read_table(tmp_path)
    with pytest.raises(InvalidInputError, match="no Parquet file"):
        read_table(file(tmp_path, b"a,b\n1,2\n", "table.parquet"))
    with pytest.raises(InvalidInputError, match="no encoding 'klingon'"):
        read_table(file(tmp_path, b"a,b\n1,2\n"), encoding="klingon")


def test_another_encoding(tmp_path):
    path = file(tmp_path, "a,b\né,2\n".encode("latin-1"))
    assert read_table(path, encoding="latin-1")["a"].tolist() == ["é"]


@pytest.mark.parametrize("typed", ["\\t", "tab", "\t"])
def test_a_tab_can_be_typed(tmp_path, typed):
    assert read_table(file(tmp_path, "a\tb\n1\t2\n"), separator=typed)["b"].tolist() == [2]


@pytest.mark.parametrize("separator", ["", ", ", '"'])
def test_a_separator_is_one_sign(tmp_path, separator):
    with pytest.raises(InvalidInputError, match="one sign is needed"):
        read_table(file(tmp_path, "a,b\n1,2\n"), separator=separator)


def test_a_wrong_separator_is_noticed(tmp_path):
    with pytest.raises(InvalidInputError, match="give --separator ','"):
        read_table(file(tmp_path, "a,b\n1,2\n3,4\n"), separator=";")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_table_or_a_clear_error(tmp_path_factory, content):
    path = file(tmp_path_factory.mktemp("any"), content)
    try:
        frame = read_table(path)
    except InvalidInputError as error:
        assert str(path) in str(error)  # noqa: PT017 (the other outcome is as good)
    else:
        assert len(frame) > 0
        assert frame.columns.is_unique
