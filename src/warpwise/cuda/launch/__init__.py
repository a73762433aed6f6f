"""Kernels and their launches: arguments checked and packed, limits, modules and launchers."""
