"""A saved pytree in one file: a line of JSON, then Equinox's leaves. Never pickle.

The first line names the format, its version and the kind of content, and carries the payload's SHA-256,
so that a damaged or foreign file is recognised before a byte of it is used. What it says of the
content is a `Header`, a typed value that is checked when it is read.
"""

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import msgspec

from bellman_diffusion.errors import BellmanError, CheckpointError
from bellman_diffusion.training.files import write_atomically

FORMAT = "bellman-diffusion"
VERSION = 2

Tree = TypeVar("Tree")


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a saved file says of its content; each kind of file has a subclass."""


SomeHeader = TypeVar("SomeHeader", bound=Header)


def write_checkpoint(path: Path, kind: str, tree: Any, header: Header) -> None:
    """Save the arrays of `tree` under their header."""
    meta = msgspec.to_builtins(header)
    payload = io.BytesIO()
    eqx.tree_serialise_leaves(payload, tree)
    first_line = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "sha256": hashlib.sha256(_meta_bytes(meta) + payload.getvalue()).hexdigest(),
        "meta": meta,
    }
    write_atomically(path, json.dumps(first_line).encode() + b"\n" + payload.getvalue())


def read_checkpoint(
    path: Path, kind: str, header_type: type[SomeHeader], like: Callable[[SomeHeader], Tree]
) -> tuple[Tree, SomeHeader]:
    """The tree and the header of a file; `like(header)` builds a tree of the same structure."""
    first_line, payload = _read(path, kind)
    meta = first_line["meta"]
    digest = hashlib.sha256(_meta_bytes(meta) + payload).hexdigest()
    if digest != first_line.get("sha256"):
        raise CheckpointError(
            f"{path} is damaged: its checksum does not match. Restore it from a copy or train again."
        )
    try:
        header = msgspec.convert(meta, header_type)
        return eqx.tree_deserialise_leaves(io.BytesIO(payload), like(header)), header
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{path} has a header that is not a {kind}'s: {error}") from error
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


def _meta_bytes(meta: dict[str, Any]) -> bytes:
    return json.dumps(meta, sort_keys=True).encode()


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
