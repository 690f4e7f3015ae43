"""Formats in which hosts keep weights and activations.

Read pack_weights (panels), byte_grids (panels of bytes), store_weights and store_activations (bfloat16,
if the caller asks for it), and widening (models of 16 bits in float32).
"""
