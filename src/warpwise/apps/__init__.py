"""Whole programs on modules and operations."""
