"""Translates the source of a Python function to Tile IR."""
