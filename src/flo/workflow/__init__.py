"""The workflow language: read YAML, check it, walk the graph; knows no log and no queue."""
