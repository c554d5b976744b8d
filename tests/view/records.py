"""Runs made by hand: what the page shows does not depend on what was learned."""

import numpy as np

from bellman_diffusion.view.episode import N_POINTS, ActionReturns, Episode, episode_to_json
from bellman_diffusion.view.packing import pack, pack_frames, pack_points


def made_episode(name="ours", n_steps=12, n_actions=2, terminated=True):
    """Bumps that move to the right, frames that grow brighter."""
    x = np.linspace(-1, 11, N_POINTS)
    centre = np.arange(n_steps)[:, None] * 0.5 + np.arange(n_actions)[None]
    density = np.exp(-0.5 * (x - centre[..., None]) ** 2) / np.sqrt(2 * np.pi)
    gradient = -(x - centre[..., None]) * density
    return Episode(
        name=name,
        env_id="CartPole-v1",
        gamma=0.9,
        frames=[np.full((20, 30, 3), 10 * t, np.uint8) for t in range(n_steps)],
        actions=[t % n_actions for t in range(n_steps)],
        rewards=[1.0] * (n_steps + 3),
        terminated=terminated,
        returns=ActionReturns(
            x,
            density,
            gradient,
            centre,
            centre - 1.75,
            centre[:, 0],
            centre[:, 0] - 2,
            centre[:, 0] + 2,
        ),
        note="made by hand",
    )


def episode_record(name="ours", **changes):
    return episode_to_json(made_episode(name, **changes)) | {"run": f"runs/{name}"}


def samples_record(n_frames=5):
    rng = np.random.default_rng(0)
    n = 9
    return {
        "kind": "samples",
        "name": "moons",
        "run": "runs/moons",
        "columns": ["a", "b"],
        "n_steps": n_frames,
        "samples": pack_points(rng.normal(size=(50, 2))),
        "data": pack_points(rng.normal(size=(60, 2))),
        "paths": pack_points(rng.normal(size=(n_frames, 40, 2))),
        "levels": [3.0, 1.0, 0.3, 0.1, 0.03],
        "window": [[-3.0, 3.0], [-3.0, 3.0]],
        "fields": {
            "n": n,
            "scalar": pack(rng.uniform(size=(n_frames, n, n))),
            "gradient": pack(rng.normal(size=(n_frames, n, n, 2))),
            "follows_noise": True,
        },
    }


def images_record(n_frames=4):
    sheets = [np.full((20, 20, 3), 50 * t, np.uint8) for t in range(n_frames)]
    frames, which = pack_frames(sheets)
    return {
        "kind": "images",
        "name": "digits",
        "run": "runs/digits",
        "n_steps": n_frames,
        "n_images": 4,
        "frames": frames,
        "frame": which,
        "levels": [3.0, 1.0, 0.3, 0.1],
    }
