"""A bridge between pipelines and the topics of FlowKit."""
