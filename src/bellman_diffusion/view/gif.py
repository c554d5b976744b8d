"""An episode as a GIF: each frame next to the return densities of the actions."""

import io
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from bellman_diffusion.render.figure import COLOURS, new_figure
from bellman_diffusion.training import Progress
from bellman_diffusion.training.files import write_atomically
from bellman_diffusion.view.episode import Episode

_FRAME_MILLISECONDS = 60


def write_gif(path: Path, episode: Episode, every: int, progress: Progress) -> None:
    """Draw every so many steps and write the GIF, whole or not at all."""
    # The tallest densities would flatten all others.
    top = 1.15 * float(np.percentile(episode.returns.density.max(axis=(1, 2)), 90))
    steps = range(0, len(episode.actions), every)
    pictures = []
    with progress as bar:
        for i, step in enumerate(steps):
            pictures.append(_draw(episode, step, top))
            bar.update(i + 1, len(steps), {})
    content = io.BytesIO()
    first, *rest = pictures
    first.save(
        content,
        format="GIF",
        save_all=True,
        append_images=rest,
        duration=_FRAME_MILLISECONDS,
        loop=0,
    )
    write_atomically(path, content.getvalue())


def _draw(episode: Episode, step: int, top: float) -> Image.Image:
    returns, taken = episode.returns, episode.actions[step]
    figure = new_figure(9, 3.4)
    left, right = figure.subplots(1, 2)
    left.imshow(episode.frames[step])
    left.set(xticks=[], yticks=[])
    left.spines[:].set_visible(False)
    left.set_xlabel(f"{episode.env_id}: action {taken}", fontsize=12)
    for action, density in enumerate(returns.density[step]):
        chosen = action == taken
        colour = COLOURS[action % len(COLOURS)]
        name = f"action {action}" + (" (chosen)" if chosen else "")
        right.plot(returns.x, density, color=colour, linewidth=2.5 if chosen else 1, label=name)
        right.axvline(returns.mean[step, action], color=colour, linestyle=":", linewidth=1)
    ends = (float(returns.x[0]), float(returns.x[-1]))
    right.set(xlabel="discounted return", ylabel="density", ylim=(0, top), xlim=ends)
    right.legend(fontsize=8, loc="upper left")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3]).quantize(64)
