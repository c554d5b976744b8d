"""An episode as a GIF: each frame beside the return densities of the actions."""

import io
from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from bellman_diffusion.agents.agent import Agent
from bellman_diffusion.agents.episodes import Moment
from bellman_diffusion.report.agent_figures import COLOURS
from bellman_diffusion.report.figure import new_figure
from bellman_diffusion.training import Progress
from bellman_diffusion.training.files import write_atomically

_FRAME_MILLISECONDS = 60
_POINTS = 400


def write_episode(path: Path, agent: Agent, moments: Sequence[Moment], progress: Progress) -> None:
    """Draw every moment and write the GIF, whole or not at all."""
    laws = [agent.returns(m.observation) for m in moments]
    low, high = min(float(law.low) for law in laws), max(float(law.high) for law in laws)
    x = np.linspace(low, high, _POINTS).astype(np.float32)
    densities = np.stack([np.asarray(law.pdf(jnp.asarray(x))) for law in laws])
    means = np.stack([np.asarray(law.mean()) for law in laws])
    # The tallest densities would flatten all others.
    top = 1.15 * float(np.percentile(densities.max(axis=(1, 2)), 90))
    pictures = []
    with progress as bar:
        for i, moment in enumerate(moments):
            pictures.append(_draw(agent, moment, x, densities[i], means[i], top))
            bar.update(i + 1, len(moments), {})
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


def _draw(
    agent: Agent,
    moment: Moment,
    x: np.ndarray,
    densities: np.ndarray,
    means: np.ndarray,
    top: float,
) -> Image.Image:
    figure = new_figure(9, 3.4)
    left, right = figure.subplots(1, 2)
    left.imshow(moment.frame)
    left.set(xticks=[], yticks=[])
    left.spines[:].set_visible(False)
    left.set_xlabel(f"{agent.spec.env_id}: action {moment.action}", fontsize=12)
    for action, density in enumerate(densities):
        chosen = action == moment.action
        colour = COLOURS[action % len(COLOURS)]
        name = f"action {action}" + (" (chosen)" if chosen else "")
        right.plot(x, density, color=colour, linewidth=2.5 if chosen else 1, label=name)
        right.axvline(means[action], color=colour, linestyle=":", linewidth=1)
    right.set(xlabel="discounted return", ylabel="density", ylim=(0, top), xlim=(x[0], x[-1]))
    right.legend(fontsize=8, loc="upper left")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3]).quantize(64)
