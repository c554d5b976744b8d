"""Compiled programs are kept on disk, so that the next command need not compile them again.

Set up by JAX's own environment variables, before JAX is imported: the processes that a command starts
share it. JAX runs what it finds in the folder, so the folder must be the user's own.
"""

import hashlib
import os
import platform
import sys
import tempfile
from pathlib import Path

from platformdirs import user_cache_path

CACHE_VARIABLE = "BELLMAN_CACHE_DIR"
"""Names the folder; `off` for none."""
_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_SETTINGS = {
    # Quicker ones would be thousands of files that save less than a second in all.
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    # Bytes; what was not used for longest makes room.
    "JAX_COMPILATION_CACHE_MAX_SIZE": str(1 << 30),
}


def keep_programs() -> Path | None:
    """Have JAX keep what it compiles; the folder, or None where nothing is kept.

    A folder that JAX's own variable names is left to JAX. One that cannot be written is a line on
    stderr, no error.
    """
    if folder := os.environ.get(_FOLDER):
        return Path(folder)
    given = os.environ.get(CACHE_VARIABLE, "").strip()
    if given.lower() == "off":
        return None
    try:
        root = Path(given).expanduser() if given else user_cache_path("bellman-diffusion", False)
        path = root / "compiled" / _machine()
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        sys.stderr.write(
            f"bellman: compiled programs are not kept: {error}; set {CACHE_VARIABLE} to a folder "
            "that can be written, or to off\n"
        )
        return None
    os.environ[_FOLDER] = str(path)
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    return path


def keep_nothing() -> None:
    """Have JAX neither read nor write compiled programs, whatever the environment says."""
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"


def _machine() -> str:
    """JAX's keys know nothing of the processor; a home folder may be shared by several kinds."""
    kind = platform.machine()
    features = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        # x86 says flags, Arm says Features; the first core speaks for all.
        features = next(s for s in lines if s.lower().startswith(("flags", "features")))
    except (OSError, StopIteration):
        pass  # not Linux
    return f"{kind}-{hashlib.sha256(features.encode()).hexdigest()[:12]}"
