"""The functions that kernels call, one file per subject."""
