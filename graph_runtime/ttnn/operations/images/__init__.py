"""Functions of images with channels last.

Read: planes (images as they are taken and given), conv_weights, convolution; pooling, resizing, rotating.
"""

from . import conv_weights, convolution, pooling, resizing, rotating  # noqa: F401  (each makes its operations)
