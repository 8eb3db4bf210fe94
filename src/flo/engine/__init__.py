"""The rules: decide() says what happens, apply() folds it; no clock, no I/O."""
