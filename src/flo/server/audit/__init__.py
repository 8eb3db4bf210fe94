"""The audit at the doors: which commands of callers from outside leave an entry."""
