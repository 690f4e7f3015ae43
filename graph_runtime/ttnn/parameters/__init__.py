"""ttnn.model_preprocessing: parameters of torch modules as ttnn tensors.

Read: cache (parameters by names, and their files), modules.
"""
