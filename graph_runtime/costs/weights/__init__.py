"""Weights of the cost models, one JSON file per model family; written by tests/tools/fit_*.py."""
