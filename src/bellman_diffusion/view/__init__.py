"""Looking inside: one page of an agent's, a planner's or a generative model's run."""

from bellman_diffusion.view.page import write_view
from bellman_diffusion.view.record import record_run

__all__ = ["record_run", "write_view"]
