"""Rules that run quantized graphs on hosts in integers.

Read quantized (the rules), integer_products and integer_cells (what they look for).
"""
