"""Rules for nodes that were placed on a host; ``target`` calls them.

Read channels_last with images and volumes, then convolutions, transposed, resampling and heads.
"""
