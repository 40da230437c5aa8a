"""From the text of a Python function to Tile IR."""
