"""Fourier transforms.

Read: fourier.
"""

from . import fourier  # noqa: F401  (it makes its operations)
