"""The workflow language: documents, their checks, their graphs; knows no log and no queue."""
