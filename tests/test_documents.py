"""Every Python block of the README and the docs runs; every command in them is one that there is."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from bellman_diffusion.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{i}")
    for page in PAGES
    for i, block in enumerate(BLOCK.findall(page.read_text()))
]


CONSOLE = re.compile(r"```console\n(.*?)```", flags=re.DOTALL)
COMMANDS = [
    pytest.param(line[2:], id=f"{page.name}-{i}-{k}")
    for page in PAGES
    for i, block in enumerate(CONSOLE.findall(page.read_text()))
    for k, line in enumerate(block.replace("\\\n", " ").splitlines())
    if line.startswith("$ ")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_in_the_documents_exist_and_take_their_options(line):
    """Read as the shell and the command line would read them, without running them."""
    words = shlex.split(line.removesuffix("&"), comments=True)
    # A scheduler may start the command.
    words = words[words.index("bellman") :] if "bellman" in words else words
    if words[0] == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words[1:]) <= set(targets)
    elif words[0] == "bellman":
        command, rest = typer.main.get_command(app), words[1:]
        context = command.make_context("bellman", list(rest), resilient_parsing=True)
        while hasattr(command, "get_command"):
            name, *rest = rest
            command = command.get_command(context, name)
            assert command is not None, f"there is no command {name}"
            # Options are checked, and that nothing is left over; files need not exist.
            context = command.make_context(name, list(rest), parent=context)
    else:
        assert words[0] in ("source", "pip", "git", "python", "tensorboard", "cd", "export"), line


@pytest.mark.parametrize("block", BLOCKS)
def test_code_in_the_documents_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "document", "exec"), {"__name__": "document"})


def test_the_api_page_has_every_public_package():
    """A package's page shows what its `__all__` has."""
    page = (ROOT / "docs" / "api.md").read_text()
    source = ROOT / "src" / "bellman_diffusion"
    for package in source.rglob("__init__.py"):
        name = ".".join(package.parent.relative_to(source.parent).parts)
        if name != "bellman_diffusion" and "__all__" in package.read_text():
            assert f"::: {name}\n" in page, name
