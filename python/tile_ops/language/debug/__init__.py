"""Kernels run as the Python that they are, a block at a time, on tiles that are torch tensors."""
