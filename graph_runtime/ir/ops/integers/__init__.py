"""Ops on integer grids: a tensor's values are scale * (integer - zero point).

Read quantized (to the grids and back), quantized_products, quantized_conv and quantized_map.
"""
