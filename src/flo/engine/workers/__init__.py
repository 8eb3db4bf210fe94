"""Workers: registration, heartbeat, drain, departure."""
