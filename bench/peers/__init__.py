"""The same work done by flo and by other task queues and workflow engines, side by side."""
