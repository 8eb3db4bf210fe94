"""Lists of workflow runs."""
