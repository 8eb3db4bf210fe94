"""What starts workflows by itself: schedules and triggers."""
