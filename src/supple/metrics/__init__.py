"""Metrics of plasticity, a file a family; `observe.observe` gathers what they read. Their functions, for any loop."""

from supple.metrics.derivatives import curvature, gradient_kernel
from supple.metrics.observe import singular_values
from supple.metrics.rank import feature_rank, pca_rank, stable_rank
from supple.metrics.updates import churn, sample_plasticity
from supple.metrics.weights import dfi

__all__ = [
    "churn",
    "curvature",
    "dfi",
    "feature_rank",
    "gradient_kernel",
    "pca_rank",
    "sample_plasticity",
    "singular_values",
    "stable_rank",
]
