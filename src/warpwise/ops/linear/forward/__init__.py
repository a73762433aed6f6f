"""The ladder of linear."""
