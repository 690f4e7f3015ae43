"""Ops on images and volumes: pools, windows, resampling, samples of boxes.

Read images (the two layouts), windows, pool and pool_indices, then resample and roi_align.
"""
