"""Plans of workflows: what is known of their executors."""
