"""Functions of images with channels last.

Read: planes (images as arguments and results), conv_weights, convolution; pooling, resampling.
"""

from . import conv_weights, convolution, pooling, resampling  # noqa: F401  (each makes its operations)
