"""The blackboard API of neops, as its published worker calls it."""
