"""Workers of pipelines: role handlers, their input, their context."""
