"""Mixtures of experts: the choice of experts, tokens by expert, and the products of experts.

Read: routing, tokens, products.
"""

from . import products, routing, tokens  # noqa: F401  (each makes its operations)
