"""The simulation of the whole system: clients, workers, faults, reference models, invariants."""
