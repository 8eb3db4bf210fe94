"""What is told of workflow executions beside their status."""
