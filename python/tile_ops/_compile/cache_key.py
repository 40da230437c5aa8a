"""Parts our compiled graphs from inductor's in its caches, which know of passes but of no other code generator."""

import functools
import hashlib
import pathlib

from torch._inductor import config

from .._inductor import LaterPass, _Fusion


def sources():
    """Returns the files on which generated modules depend, beside those of _inductor."""
    folder = pathlib.Path(__file__).parent
    return [*sorted(folder.glob("*.py")), folder.parent / "_products.py"]


@functools.cache
def version():
    """Returns a number of the sources."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources())).hexdigest()


class Pass(_Fusion):
    """The pass of enable_inductor_fusion(), after those that the user set, with a key of its own."""

    def __init__(self, before, options):
        super().__init__(before)
        self.options = options

    def uuid(self):
        own = super().uuid()  # None if nothing is to be cached
        return own and ("torch.compile(backend='tile')", version(), repr(sorted(self.options.items())), *own)


class JointPass(LaterPass):
    """Changes the joint graph of forward and backward, behind inductor's own patterns and the passes that the user set."""

    def __init__(self, before, change):
        super().__init__(before)
        self.change = change

    def uuid(self):
        return self.key("tile", version())


def patched(patches, options, change_joint):
    """Adds our passes to settings of inductor, after those that they or inductor's own have.

    change_joint(graph): changes a joint graph.
    """

    def before(name):
        return patches.get(name, getattr(config, name))

    return {
        **patches,
        "post_grad_custom_pre_pass": Pass(before("post_grad_custom_pre_pass"), options),
        "joint_custom_post_pass": JointPass(before("joint_custom_post_pass"), change_joint),
    }
