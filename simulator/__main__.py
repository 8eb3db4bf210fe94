"""python -m simulator --seed 7: one simulation from the command line."""

from simulator.simulation import main

main()
