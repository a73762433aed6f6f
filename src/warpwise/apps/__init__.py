"""Whole programs on the modules of ``warpwise.nn``: training of image classifiers."""
