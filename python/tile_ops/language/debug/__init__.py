"""Runs kernels as Python, one block at a time, on tiles that are torch tensors."""
