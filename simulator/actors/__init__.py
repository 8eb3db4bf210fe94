"""Who acts in a simulation: clients, workers, servers."""
