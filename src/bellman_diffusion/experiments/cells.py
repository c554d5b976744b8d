"""Parts of an experiment, kept as they are finished: a stopped run goes on with what is missing."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bellman_diffusion.baselines import DdpmSettings, ScoreFlowSettings
from bellman_diffusion.recipe import PRESETS
from bellman_diffusion.training import RunFolder
from bellman_diffusion.training.files import write_json


def load_or_run(
    path: Path, settings: dict[str, Any], run: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """The figures in `path` if these settings and this release's presets made them; else make them."""
    key = json.loads(json.dumps({"settings": settings, **_made_by()}))
    found = read_cell(path)
    if found is not None and found.get("key") == key:
        return found["figures"]
    figures = run()
    write_json(path, {"key": key, "figures": figures})
    return figures


def training_run(path: Path, config: Mapping[str, Any]) -> RunFolder:
    """The folder of a part's training, which goes on in it when it was stopped.

    Other configurations have other folders: a thinned run and a full one may share their place.
    """
    return RunFolder(path.with_name(f"{path.name}-{_digest(config)}"), config)


def read_cell(path: Path) -> dict[str, Any] | None:
    """What a file holds, or None where it is missing or was cut off."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _made_by() -> dict[str, str]:
    models = (*PRESETS.values(), DdpmSettings(), ScoreFlowSettings())
    presets = {str(k): asdict(settings) for k, settings in enumerate(models)}
    return {"version": version("bellman-diffusion"), "presets": _digest(presets)}


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]
