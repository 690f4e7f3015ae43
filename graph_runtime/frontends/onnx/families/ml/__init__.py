"""Converters of ai.onnx.ml: classical models (linear models, support vectors, features) and ensembles of
trees.

Read scores (shared by classifiers and regressors), classical and trees.
"""

from . import classical, trees
