"""Routes that do more than build, ask and return."""
