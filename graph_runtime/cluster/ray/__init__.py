"""Ray on this machine: rays starts or joins it, ray_address checks whether one listens, ray_folder chooses
and checks the folder of its files."""
