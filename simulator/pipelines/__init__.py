"""Pipelines in a simulation of their own: graphs, workers that die, reports that come twice."""
