"""A saved pytree in one file: a line of JSON, then Equinox's leaves. Never pickle.

The header names the format, its version and the kind of content, and carries the payload's SHA-256,
so that a damaged or foreign file is recognised before a byte of it is used.
"""

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx

from bellman_diffusion.errors import BellmanError, CheckpointError
from bellman_diffusion.training.files import write_atomically

FORMAT = "bellman-diffusion"
VERSION = 1

Tree = TypeVar("Tree")


def write_checkpoint(path: Path, kind: str, tree: Any, meta: Mapping[str, Any]) -> None:
    """Save the arrays of `tree` and the JSON-able `meta`."""
    payload = io.BytesIO()
    eqx.tree_serialise_leaves(payload, tree)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "sha256": hashlib.sha256(_meta_bytes(meta) + payload.getvalue()).hexdigest(),
        "meta": dict(meta),
    }
    write_atomically(path, json.dumps(header).encode() + b"\n" + payload.getvalue())


def read_checkpoint(
    path: Path, kind: str, like: Callable[[dict[str, Any]], Tree]
) -> tuple[Tree, dict[str, Any]]:
    """The tree and the meta of a file; `like(meta)` builds a tree of the same structure."""
    header, payload = _read(path, kind)
    meta = header["meta"]
    digest = hashlib.sha256(_meta_bytes(meta) + payload).hexdigest()
    if digest != header.get("sha256"):
        raise CheckpointError(
            f"{path} is damaged: its checksum does not match. Restore it from a copy or train again."
        )
    try:
        return eqx.tree_deserialise_leaves(io.BytesIO(payload), like(meta)), meta
    except BellmanError:
        # What is missing is said better by who missed it, such as an environment's package.
        raise
    except (RuntimeError, ValueError, TypeError, KeyError, EOFError) as error:
        raise CheckpointError(f"{path} does not hold what its header says: {error}") from error


def checkpoint_kind(path: Path) -> str | None:
    """What a file says that it holds; None where it is no checkpoint."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline())
        return header["kind"] if header["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _meta_bytes(meta: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(meta), sort_keys=True).encode()


def _read(path: Path, kind: str) -> tuple[dict[str, Any], bytes]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    line, _, payload = content.partition(b"\n")
    try:
        header = json.loads(line)
        found = (header["format"], header["version"], header["kind"], header["meta"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is not a file of bellman-diffusion, or its header is damaged."
        ) from error
    if found[0] != FORMAT or not isinstance(found[3], dict):
        raise CheckpointError(f"{path} is not a file of bellman-diffusion.")
    if found[1] != VERSION:
        raise CheckpointError(
            f"{path} has format version {found[1]}; this release reads version {VERSION}. "
            "Use the release that wrote it, or train again."
        )
    if found[2] != kind:
        raise CheckpointError(f"{path} holds a {found[2]}, not a {kind}.")
    return header, payload
