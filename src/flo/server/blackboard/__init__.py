"""The door for published neops workers: their HTTP calls over the commands of everybody else."""
