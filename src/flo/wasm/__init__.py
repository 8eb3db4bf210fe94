"""Actions compiled to WebAssembly: one guest, checked, contained, and run to an outcome."""
