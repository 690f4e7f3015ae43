"""Products and sums over many elements: dense, matmul, convolutions, attention, recurrent cells.

Read packed (weights in panels), dense, matmul and conv; levels, halves, winograd and byte_panels have further
forms of weights and images. bias, convolutions and attention, then cells and recurrent, build on these
modules.
"""
