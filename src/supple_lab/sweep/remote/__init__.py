"""What runs in processes that a driver, Ray or SLURM starts. Imports packages that not everybody has installed."""
