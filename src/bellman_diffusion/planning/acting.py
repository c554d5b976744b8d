"""Policies that act: on a batch of observations, with a memory where they have one."""

import importlib
import inspect
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from jaxtyping import Bool, Float

from bellman_diffusion.errors import BellmanError, InvalidInputError
from bellman_diffusion.returns.observations import to_rows

# From an observation to an action, to probabilities of discrete actions, or, with a memory, from
# (observation, state) to (action, state). An object with Stable-Baselines3's `predict` is one as well.
PolicyFunction = Callable[..., Any]
# (batched observations, which of them start an episode) → an action for each.
Choose = Callable[[Any, Bool[np.ndarray, " n"]], Any]
# The name of a policy that was given as a Python function.
GIVEN_POLICY = "given"
_ZIP_PACKAGES = ("stable_baselines3", "sb3_contrib", "sbx")


class Spaces(NamedTuple):
    """What a policy needs to know of an environment, where there is none: a log's spaces."""

    observation_space: gym.Space
    action_space: gym.Space


class ActingPolicy:
    """A policy in one environment: checked actions for a batch of observations, some at random."""

    def __init__(
        self,
        choose: Choose,
        env: gym.Env | Spaces,
        seed: int,
        epsilon: float = 0.0,
        name: str = "the policy",
    ) -> None:
        if not 0 <= epsilon <= 1:
            raise InvalidInputError(f"epsilon is {epsilon}: it must be in [0, 1]")
        self._choose, self._space, self._epsilon, self._name = (
            choose,
            env.action_space,
            epsilon,
            name,
        )
        self._rng = np.random.default_rng(seed)
        self._observations = env.observation_space
        env.action_space.seed(seed)

    def actions(self, observations: Any, fresh: Bool[np.ndarray, " n"]) -> list[Any]:
        """One for each of the batched observations; `fresh` tells which start an episode."""
        try:
            chosen = self._choose(observations, fresh)
        except BellmanError:
            raise
        except Exception as error:
            raise InvalidInputError(
                f"{self._name}: the policy failed on {observations!r}: {error!r}"
            ) from error
        if len(chosen) != len(fresh):
            raise InvalidInputError(
                f"{self._name} returned {len(chosen)} actions for {len(fresh)} observations"
            )
        if not self._epsilon and _are_actions(self._space, chosen):
            return chosen.tolist()
        return [self._one(action) for action in chosen]

    def __call__(self, observation: Any) -> Any:
        """For one observation of one episode."""
        batch = concatenate(
            self._observations, [observation], create_empty_array(self._observations, 1)
        )
        return self.actions(batch, np.zeros(1, bool))[0]

    def _one(self, chosen: Any) -> Any:
        if self._epsilon and self._rng.uniform() < self._epsilon:
            return self._space.sample()
        action = as_action(self._space, chosen, self._rng)
        if not self._space.contains(action):
            raise InvalidInputError(
                f"{self._name} returned {chosen!r}, which is not an action of {self._space}: return "
                "one of its actions"
            )
        return action


def _are_actions(space: gym.Space, chosen: Any) -> bool:
    """Whether all of an array are actions of a discrete space: the usual case, checked at once."""
    if not isinstance(space, gym.spaces.Discrete) or not isinstance(chosen, np.ndarray):
        return False
    whole = chosen.ndim == 1 and chosen.dtype.kind in "iu"
    return bool(whole and np.all((chosen >= space.start) & (chosen < space.start + space.n)))


def acting(
    policy: str | PolicyFunction,
    env: gym.Env | Spaces,
    seed: int = 0,
    epsilon: float = 0.0,
    *,
    stochastic: bool = False,
    normalize: str | None = None,
    with_memory: bool = True,
) -> ActingPolicy:
    """A policy by its name, or a function: `random`, `module:function`, a zip of Stable-Baselines3.

    `stochastic` samples from a policy that has a distribution of actions, in place of its mode.
    `normalize` is the file of VecNormalize that the policy was trained with. Without `with_memory` the
    policy must be a function of the observation.
    """
    if policy == "random":
        return ActingPolicy(lambda _, fresh: [0] * len(fresh), env, seed, epsilon=1.0)
    name = policy if isinstance(policy, str) else "the policy"
    found = load_policy(policy, env) if isinstance(policy, str) else policy
    is_model = hasattr(found, "predict")
    remembers = "Recurrent" in type(found).__name__ if is_model else has_memory(found)
    if remembers and not with_memory:
        raise InvalidInputError(
            f"{name} has a memory: it is evaluated from episodes that it plays (--samples), not from a "
            "log of other ones"
        )
    choose = (
        _by_predict(found, deterministic=not stochastic)
        if is_model
        else _by_function(found, env.observation_space)
    )
    if normalize is not None:
        choose = _normalised(choose, normalize)
    return ActingPolicy(choose, env, seed, epsilon, name)


def table_policy(
    table: Float[np.ndarray, "states actions"],
    env: gym.Env | Spaces,
    seed: int,
    epsilon: float = 0.0,
) -> ActingPolicy:
    """Probabilities of actions in every state of a table."""
    # Not the random numbers that decide which actions are random ones.
    space, rng = env.observation_space, np.random.default_rng((seed, 1))
    actions = env.action_space
    assert isinstance(actions, gym.spaces.Discrete)
    total = np.cumsum(table, axis=1)

    def choose(observations: Any, fresh: np.ndarray) -> np.ndarray:
        # Arrays are read as a whole.
        array = isinstance(observations, np.ndarray)
        each = (
            observations if array else list(iterate(batch_space(space, len(fresh)), observations))
        )
        states = to_rows(space, each)[:, 0].astype(int)
        u = rng.uniform(size=(len(states), 1)) * total[states, -1:]
        return np.sum(total[states] <= u, axis=1) + int(actions.start)

    return ActingPolicy(choose, env, seed, epsilon)


def as_action(space: gym.Space, chosen: Any, rng: np.random.Generator) -> Any:
    """What a policy returned as an action; for a discrete space it may be probabilities."""
    if isinstance(space, gym.spaces.Tuple | gym.spaces.Dict):
        return chosen
    try:
        array = np.asarray(chosen)
        if array.dtype.kind not in "biuf":
            raise InvalidInputError(
                f"the policy returned {chosen!r}, which is not an action of {space}"
            )
        if isinstance(space, gym.spaces.Discrete):
            if array.size == 1:
                whole = int(array.item())
                return whole if whole == array.item() else chosen
            if array.ndim == 1 and array.size == space.n:
                return int(rng.choice(array.size, p=array / array.sum())) + int(space.start)
        elif isinstance(space, gym.spaces.Box | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary):
            if array.ndim == 0 and space.shape != ():
                raise InvalidInputError(
                    f"the policy returned {chosen!r}, but the environment's actions are {space}: "
                    "a discrete policy does not fit it. Return an array of that shape."
                )
            return np.asarray(chosen, space.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the policy returned {chosen!r}, which is not an action of {space}: {error}"
        ) from error
    return chosen


def _by_function(policy: PolicyFunction, space: gym.Space) -> Choose:
    """One call an observation; all at once where the function says that it is `batched`."""
    if getattr(policy, "batched", False):
        return lambda observations, fresh: policy(observations)
    batched = lru_cache(partial(batch_space, space))

    def each(observations: Any, n: int) -> Iterator[Any]:
        return iterate(batched(n), observations)

    if not has_memory(policy):
        return lambda observations, fresh: [policy(o) for o in each(observations, len(fresh))]
    memory: list[Any] = []

    def choose(observations: Any, fresh: Bool[np.ndarray, " n"]) -> list[Any]:
        if len(memory) != len(fresh):
            memory[:] = [None] * len(fresh)
        actions = []
        for i, observation in enumerate(each(observations, len(fresh))):
            action, memory[i] = policy(observation, None if fresh[i] else memory[i])
            actions.append(action)
        return actions

    return choose


def has_memory(policy: PolicyFunction) -> bool:
    """Whether a function takes a state beside the observation."""
    try:
        parameters = inspect.signature(policy).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in parameters) == 2


def _by_predict(model: Any, deterministic: bool) -> Choose:
    """By Stable-Baselines3's `predict`; a recurrent policy's state is handed on."""
    memory: list[Any] = [None]

    def choose(observations: Any, fresh: Bool[np.ndarray, " n"]) -> Any:
        if fresh.all():
            # A new set of environments, perhaps of another size.
            memory[0] = None
        actions, memory[0] = model.predict(
            observations, state=memory[0], episode_start=fresh, deterministic=deterministic
        )
        return actions

    return choose


def _normalised(choose: Choose, path: str) -> Choose:
    """Observations by the running statistics of Stable-Baselines3's VecNormalize."""
    import pickle  # noqa: PLC0415 (Stable-Baselines3 saves nothing else)

    try:
        with Path(path).open("rb") as file:
            statistics = pickle.load(file)
        normalise = statistics.normalize_obs
    except (OSError, ImportError, AttributeError, pickle.UnpicklingError, EOFError) as error:
        raise InvalidInputError(
            f"{path} has no statistics of VecNormalize that can be read: {error}"
        ) from error
    return lambda observations, fresh: choose(normalise(observations), fresh)


def load_policy(name: str, env: gym.Env | Spaces) -> Any:
    """A function by module:function, or a model of Stable-Baselines3 by its zip."""
    if name == "optimal":
        raise InvalidInputError(
            "the optimal policy is known only for an environment with a transition table: give a "
            "policy as module:function, or the path of a Stable-Baselines3 zip"
        )
    if name == GIVEN_POLICY:
        raise InvalidInputError(
            "the policy was given as a Python function, which is not saved: plan again with a policy "
            "as module:function"
        )
    return _from_zip(Path(name), env) if name.endswith(".zip") else _from_module(name)


def _from_module(name: str) -> PolicyFunction:
    module_name, _, function = name.partition(":")
    if not function:
        raise InvalidInputError(
            f"--policy {name!r} is not known: use optimal, random, module:function, "
            "a .npy table or a Stable-Baselines3 .zip"
        )
    # As with `python -m`: modules in the working folder are found.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module_name), function)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(f"--policy {name}: {error}") from error
    if not callable(found):
        raise InvalidInputError(f"--policy {name} is not a function of the observation")
    return found


def _from_zip(path: Path, env: gym.Env | Spaces) -> Any:
    """The model in a zip of Stable-Baselines3, of sb3-contrib or of sbx."""
    package, kind = _algorithm(path)
    try:
        module = importlib.import_module(package)
        # Such as CrossQ, in the module crossq.
        algorithm = getattr(
            module, next((n for n in dir(module) if n.upper() == kind.upper()), kind)
        )
    except ImportError as error:
        name = {"sbx": "sbx-rl"}.get(package, package.replace("_", "-"))
        raise InvalidInputError(
            f"{path} is a policy of {package}: install that package to use it (pip install {name})"
        ) from error
    except AttributeError as error:
        raise InvalidInputError(
            f"{path} is of an algorithm that this {package} does not have: {kind}"
        ) from error
    try:
        model = algorithm.load(path, device="cpu")
    except Exception as error:  # (whatever a foreign loader raises)
        raise InvalidInputError(f"{package}.{kind} cannot load {path}: {error}") from error
    _check_space(path, model, env)
    return model


def _algorithm(path: Path) -> tuple[str, str]:
    """The package and the algorithm of a zip, by the module of its policy's class and its settings.

    The file does not name its algorithm.
    """
    if not path.exists():
        raise InvalidInputError(f"--policy {path}: there is no such file")
    try:
        with zipfile.ZipFile(path) as archive:
            settings = json.loads(archive.read("data"))
        module = str(settings["policy_class"]["__module__"])
    except (OSError, zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{path} is not a zip that Stable-Baselines3 saved: {error}"
        ) from error
    package = next((p for p in _ZIP_PACKAGES if module.startswith(p)), _ZIP_PACKAGES[0])
    if "recurrent" in module:
        return package, "RecurrentPPO"
    if "maskable" in module:
        return package, "MaskablePPO"
    if ".common." in module or package not in module:
        # One class of policies for several algorithms.
        if "cg_max_steps" in settings:
            return "sb3_contrib", "TRPO"
        return package, "PPO" if "clip_range" in settings else "A2C"
    return package, module.removeprefix(f"{package}.").split(".")[0].replace("_", "").upper()


def _check_space(path: Path, model: Any, env: gym.Env | Spaces) -> None:
    """A policy of another environment is refused before it acts."""
    for name in ("observation_space", "action_space"):
        own, of_env = getattr(model, name, None), getattr(env, name)
        # Images may be saved with their channels first.
        shapes = (of_env.shape, (of_env.shape or ())[-1:] + (of_env.shape or ())[:-1])
        if own is not None and own.shape not in shapes:
            raise InvalidInputError(
                f"{path} is a policy for another environment: its {name.replace('_', ' ')} is {own}, "
                f"here it is {of_env}"
            )
