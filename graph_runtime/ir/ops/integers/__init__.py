"""Ops on numbers of integer grids: values that are a scale times an integer, less a zero point.

Read quantized (to the grids and back), quantized_products, quantized_conv and quantized_map.
"""
