"""Supports kernels in Python under torch.compile: a launch becomes a call of an operator that is made for it.

torch._dynamo is slow to import and seldom needed, so it is taught about kernels only when it is imported.
"""

import sys

from .._on_import import on_import

_BUILDER = "torch._dynamo.variables.builder"


def _teach():
    from . import variables

    variables.teach()


def _teach_at_first_use(module):
    # The package of this module is still being imported, so variables.py, which imports all of it, waits for the first
    # value that dynamo wraps.
    wrap = module.VariableBuilder._wrap

    def first(self, value):
        module.VariableBuilder._wrap = wrap
        _teach()
        return module.VariableBuilder._wrap(self, value)

    module.VariableBuilder._wrap = first


def _install():
    if _BUILDER in sys.modules:
        _teach()
    else:
        on_import(_BUILDER, _teach_at_first_use)


_install()
