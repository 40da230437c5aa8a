"""Parts our compiled graphs from inductor's in its caches, which know of passes but of no other code generator."""

import functools
import hashlib
import pathlib

from .._inductor import _Fusion


@functools.cache
def version():
    """Returns a number of these sources, on which generated modules depend."""
    files = sorted(pathlib.Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


class Pass(_Fusion):
    """The pass of enable_inductor_fusion(), after those that the user set, with a key of its own."""

    def __init__(self, before, options):
        super().__init__(before)
        self.options = options

    def uuid(self):
        own = super().uuid()  # None if nothing is to be cached
        return own and ("torch.compile(backend='tile')", version(), repr(sorted(self.options.items())), *own)


def patched(patches, options):
    """Adds our pass to settings of inductor, after one that they or inductor's own have."""
    from torch._inductor import config

    name = "post_grad_custom_pre_pass"
    return {**patches, name: Pass(patches.get(name, getattr(config, name)), options)}
