"""The calls of workflow executions: how they are kept, shown and replayed."""
