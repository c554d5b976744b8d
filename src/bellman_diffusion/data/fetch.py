"""Public data files: from the user's data directory, from the cache, or downloaded once.

A file is used only if its SHA-256 is the published one.
"""

import hashlib
import os
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from bellman_diffusion.errors import DataMissingError
from bellman_diffusion.training.files import write_atomically

DATA_DIR_VARIABLE = "BELLMAN_DATA_DIR"
_TIMEOUT_SECONDS = 60
_REMEDY = f"Put it into a folder and set {DATA_DIR_VARIABLE} to that folder."


class PublicFile(NamedTuple):
    """A file and where its publisher keeps it."""

    name: str
    sha256: str
    address: str

    @classmethod
    def under(cls, folder: str, name: str, sha256: str) -> "PublicFile":
        """A file that its publisher keeps under its own name."""
        return cls(name, sha256, folder + name)


def find_file(file: PublicFile) -> Path:
    """Where the file is, after downloading it if need be."""
    given = os.environ.get(DATA_DIR_VARIABLE)
    if given:
        path = Path(given).expanduser() / file.name
        if path.exists():
            return _checked(path, file)
    cached = cache_dir() / file.name
    if cached.exists():
        return _checked(cached, file)
    content = _download(file)
    write_atomically(cached, content)
    return cached


def cache_dir() -> Path:
    """The user's cache for downloaded files."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "bellman-diffusion"


def _download(file: PublicFile) -> bytes:
    try:
        with urlopen(file.address, timeout=_TIMEOUT_SECONDS) as response:
            content = response.read()
    except (URLError, HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DataMissingError(
            f"{file.name} is not here and could not be downloaded from {file.address} ({reason}). "
            f"{_REMEDY}"
        ) from error
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataMissingError(
            f"what {file.address} gave is not the published {file.name}: its SHA-256 differs. "
            f"{_REMEDY}"
        )
    return content


def _checked(path: Path, file: PublicFile) -> Path:
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataMissingError(f"cannot read {path}: {error.strerror or error}") from error
    if digest != file.sha256:
        raise DataMissingError(
            f"{path} is not the published file: its SHA-256 differs. Remove it, or get the original "
            f"from {file.address}."
        )
    return path
