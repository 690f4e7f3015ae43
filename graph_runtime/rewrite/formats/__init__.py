"""Formats in which hosts keep weights and activations.

Read pack_weights (panels), pack_bytes with byte_grids (panels of bytes), store_weights and store_activations
(bfloat16 where the caller asks for it), and widening (float32 for models of 16 bits).
"""
