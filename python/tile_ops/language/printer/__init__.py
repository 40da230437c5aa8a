"""Prints Tile IR as a kernel in Python."""
