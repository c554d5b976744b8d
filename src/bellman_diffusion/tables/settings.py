"""The settings that suit tables."""

from typing import Any

from bellman_diffusion.tables.schema import Schema

# From so many columns on the sampler takes larger steps.
_MANY_COLUMNS = 4


def table_settings(schema: Schema) -> dict[str, Any]:
    """What differs from `BellmanDiffusion`'s own settings.

    Tables have more columns and edges than a default network can draw. On a grid of categories noise
    far below the distance of its points says nothing new, and in many columns of numbers noise far
    below the distance of rows. Numbers need no waves of x, and with a smaller rate few rows end nearer
    to the best weights; beside numbers, rare levels and gaps need a still smaller one and little noise
    to come out as often as they should. Larger steps of the dynamics forget more of what the network
    gets wrong; with many of them at each noise level, a third of the levels is enough. With few columns
    there is less to forget, and larger steps leave the thin shapes that such tables can have (two
    moons: W1 1.30 × the floor with them, 1.10 × without).
    """
    size = {"width": 256, "group_size": 256}
    if schema.is_discrete:
        return size | {"max_iter": 6000, "sigma_min": 0.1}
    learning = {"max_iter": 4000, "learning_rate": 1e-3, "n_frequencies": 0, "sigma_min": 0.03}
    settings: dict[str, Any] = size | learning
    if len(schema.columns) < _MANY_COLUMNS:
        return settings
    if not any(column.is_discrete or column.has_missing for column in schema.columns):
        settings |= {"learning_rate": 2e-3, "sigma_min": 0.08}
    return settings | {"n_steps": 20, "step_size": 0.3, "n_corrections": 4}
