"""Policy evaluation: the return distributions of a policy, exactly or from transitions (Appendix D)."""

from bellman_diffusion.planning.plan import PlanSettings, plan, plan_from_transitions
from bellman_diffusion.planning.planner import Planner

__all__ = ["PlanSettings", "Planner", "plan", "plan_from_transitions"]
