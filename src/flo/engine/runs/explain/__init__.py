"""Why a run is where it is: causes, for itself and for the workflow run that waits for it."""
