"""The specification and the ladder of running_statistics."""
