"""Which configuration of a kernel is fastest: measured once a key, and kept on disk."""
