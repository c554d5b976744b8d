"""Return distributions: the Bellman equation, the models that hold them, exact references.

Section 2 and Appendix D of the paper. Planner and agents build on this.
"""

from bellman_diffusion.returns.atoms import AtomicReturn
from bellman_diffusion.returns.backup import BellmanBackup
from bellman_diffusion.returns.basis import GaussianBasis
from bellman_diffusion.returns.distribution import ReturnDistribution
from bellman_diffusion.returns.joint import JointReturn
from bellman_diffusion.returns.tabulated import TabulatedReturn

__all__ = [
    "AtomicReturn",
    "BellmanBackup",
    "GaussianBasis",
    "JointReturn",
    "ReturnDistribution",
    "TabulatedReturn",
]
