"""What torch's DTensor keeps to itself, from torch 2.11 on: all uses of its private names stand here."""

from torch.distributed.tensor import DTensor


def replicates_plain_tensors():
    """Whether torch.distributed.tensor.experimental.implicit_replication() is on."""
    return DTensor._op_dispatcher._allow_implicit_replication
