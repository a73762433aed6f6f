"""The M step of a mixture of Gaussians with one covariance, from its moments."""

from warpwise.ops.potts_m_step.op import potts_m_step

__all__ = ["potts_m_step"]
