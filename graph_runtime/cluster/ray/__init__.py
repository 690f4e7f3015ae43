"""Ray on this machine: rays starts or joins it, ray_address asks whether one listens, ray_folder has its
files.
"""
