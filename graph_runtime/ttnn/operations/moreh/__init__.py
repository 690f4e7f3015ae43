"""The moreh functions and their gradients.

Read: sums, products, norms, softmaxes, steps, folds.
"""

from . import folds, norms, products, softmaxes, steps, sums  # noqa: F401  (each makes its operations)
