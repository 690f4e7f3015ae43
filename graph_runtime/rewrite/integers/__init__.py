"""Rules that run quantized graphs on hosts in integers.

Read quantized (the rules), then integer_products and integer_cells (the patterns that they replace).
"""
