"""The functions that kernels call, a file a subject."""
