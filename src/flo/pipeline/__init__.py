"""The language of pipelines: graphs, their checks, readiness and coordinator functions."""
