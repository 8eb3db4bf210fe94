"""The events of flo's runs, in FlowKit's tree of loggers."""

import logging

from flo import EventLog


def event_log(name: str) -> EventLog:
    return EventLog(logging.getLogger(f"flowkit.{name}"))
