"""ai.onnx.ml: classical models (linear, support vectors, features) and ensembles of trees.

Read scores (what classifiers and regressors share), classical and trees.
"""

from . import classical, trees
