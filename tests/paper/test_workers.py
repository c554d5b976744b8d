"""Parts of an experiment on several processes."""

import os
from functools import partial
from pathlib import Path

import pytest

from bellman_diffusion.errors import InvalidInputError
from bellman_diffusion.paper.workers import run_parallel


def note_process(path: Path) -> None:
    path.write_text(str(os.getpid()))


def refuse() -> None:
    raise InvalidInputError("no such table")


@pytest.mark.parametrize("n_workers", [1, 2])
def test_every_task_is_run(tmp_path, n_workers):
    paths = [tmp_path / str(k) for k in range(4)]
    run_parallel([partial(note_process, path) for path in paths], n_workers=n_workers)
    here = {path.read_text() == str(os.getpid()) for path in paths}
    assert here == {n_workers == 1}


def test_what_a_task_says_is_heard(tmp_path):
    tasks = [refuse, partial(note_process, tmp_path / "a")]
    with pytest.raises(InvalidInputError, match="no such table"):
        run_parallel(tasks, n_workers=2)
