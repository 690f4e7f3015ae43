"""Weights of the cost models, one JSON file a model family; tests/tools/fit_*.py write them."""
