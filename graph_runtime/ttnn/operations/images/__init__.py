"""Functions of images with channels last.

Read: planes (images as arguments and results), conv_weights, convolution, volumes; pooling, resampling,
sampling.
"""

from . import (  # noqa: F401  (each makes its operations)
    conv_weights,
    convolution,
    pooling,
    resampling,
    sampling,
    volumes,
)
