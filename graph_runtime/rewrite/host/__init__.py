"""Rules for nodes that were placed on a host; ``target`` calls them in its order.

Read channels_last with images and volumes, convolutions, transposed, resampling, heads, and choose_kernels.
"""
