"""Commands that look at everything there is, over all actions and workflows."""
