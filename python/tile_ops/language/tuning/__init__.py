"""Finds the fastest configuration of a kernel: measured once per key, and kept on disk."""
