"""Make a Gymnasium environment by its id, or say which ids are near."""

import difflib
import os
import warnings
from typing import Any

import gymnasium as gym

from bellman_diffusion.errors import InvalidInputError


def make_env(env_id: str, **options: Any) -> gym.Env:
    """`gymnasium.make` with errors that name the remedy."""
    if options.get("render_mode") == "rgb_array":
        # Pictures that are never shown need no screen and no sound; SDL complains where it finds none.
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return gym.make(env_id, **options)
    except gym.error.DependencyNotInstalled as error:
        raise InvalidInputError(f"{env_id} needs a package that is missing: {error}") from error
    except (gym.error.Error, ModuleNotFoundError) as error:
        near = difflib.get_close_matches(env_id, gym.registry.keys(), n=3, cutoff=0.4)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInputError(f"no environment {env_id}: {first_line}.{hint}") from error
    except TypeError as error:
        raise InvalidInputError(f"{env_id} does not take {options}: {error}") from error
    except Exception as error:  # (whatever an environment's constructor raises)
        raise InvalidInputError(f"{env_id} cannot be made with {options}: {error!r}") from error
