"""Every Python block of the README and the docs runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{i}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for i, block in enumerate(BLOCK.findall(page.read_text()))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_in_the_documents_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "document", "exec"), {"__name__": "document"})
