"""How a workflow execution advances: one step to the next."""
