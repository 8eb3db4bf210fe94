"""Function blocks: what workers offer, the jobs they do for workflows, and the locks they need."""
