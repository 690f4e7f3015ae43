"""Ops on images and volumes: pools, resampling, samples of boxes.

Read windows, pool (of images in two layouts) and pool_indices, then resample and roi_align.
"""
