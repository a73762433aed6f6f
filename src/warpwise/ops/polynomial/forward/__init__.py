"""The ladder of polynomial."""
