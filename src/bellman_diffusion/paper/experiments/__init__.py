"""One file for each experiment; a file that defines `EXPERIMENT` is found by itself."""
