"""The vault: secrets are opened here, on the way to workers, and nowhere else."""
