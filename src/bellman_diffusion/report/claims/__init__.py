"""The paper's claims, a file for each part of it, in its order."""

from bellman_diffusion.report.claims.appendix import APPENDIX
from bellman_diffusion.report.claims.control import CONTROL
from bellman_diffusion.report.claims.samples import SAMPLES
from bellman_diffusion.report.claims.theory import THEORY

CLAIMS = (*THEORY, *SAMPLES, *CONTROL, *APPENDIX)

__all__ = ["CLAIMS"]
