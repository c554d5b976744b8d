"""The Bellman equation on the fields: backups, return laws, exact solutions, planning (Appendix D)."""

from bellman_diffusion.bellman.backup import Backup
from bellman_diffusion.bellman.basis import GaussianBasis
from bellman_diffusion.bellman.distribution import ReturnDistribution
from bellman_diffusion.bellman.joint import JointReturn
from bellman_diffusion.bellman.mixture import MixtureReturn
from bellman_diffusion.bellman.planner import Planner
from bellman_diffusion.bellman.planning import PlanSettings, plan
from bellman_diffusion.bellman.tabulated import TabulatedReturn

__all__ = [
    "Backup",
    "GaussianBasis",
    "JointReturn",
    "MixtureReturn",
    "PlanSettings",
    "Planner",
    "ReturnDistribution",
    "TabulatedReturn",
    "plan",
]
