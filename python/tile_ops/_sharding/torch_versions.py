"""Contains every use of private names of torch's DTensor. They exist from torch 2.11 on."""

from torch.distributed.tensor import DTensor


def replicates_plain_tensors():
    """Returns True if torch.distributed.tensor.experimental.implicit_replication() is on."""
    return DTensor._op_dispatcher._allow_implicit_replication
