"""Shape specs in continuous integration: the command line. Importing this package loads nothing else."""
