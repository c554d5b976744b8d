"""Parts of an experiment, kept as they are finished: a stopped run continues with what is missing."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bellman_diffusion.baselines import DdpmSettings, ScoreFlowSettings
from bellman_diffusion.recipe import PRESETS
from bellman_diffusion.training import RunFolder
from bellman_diffusion.training.files import write_json

T = TypeVar("T")


def load_or_run(path: Path, settings: Mapping[str, Any], kind: Any, run: Callable[[], T]) -> T:
    """The figures in `path` if these settings and this release's presets made them; else make them."""
    key = json.loads(json.dumps({"settings": dict(settings), **_made_by()}))
    try:
        found = json.loads(path.read_text())
        if found["key"] == key:
            return msgspec.convert(found["figures"], kind)
    except (OSError, ValueError, KeyError, TypeError, msgspec.ValidationError):
        # Missing, cut off, or of another release.
        pass
    figures = run()
    write_json(path, {"key": key, "figures": msgspec.to_builtins(figures)})
    return figures


def training_run(path: Path, config: Mapping[str, Any]) -> RunFolder:
    """The folder of a part's training, which continues in it after a stop.

    Other configurations have other folders: a thinned run and a full one may share their place.
    """
    return RunFolder(path.with_name(f"{path.name}-{_digest(config)}"), config)


def _made_by() -> dict[str, str]:
    models = (*PRESETS.values(), DdpmSettings(), ScoreFlowSettings())
    presets = {str(k): asdict(settings) for k, settings in enumerate(models)}
    return {"version": version("bellman-diffusion"), "presets": _digest(presets)}


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]
