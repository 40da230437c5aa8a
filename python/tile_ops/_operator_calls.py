"""Shorter calls of torch.ops: each of our operators is called by the function of _C that replaces torch's.

The function converts tensors and plain numbers itself and calls the dispatcher, so that autograd, tracing and modes
work as before. Subclasses of Tensor, symbolic numbers and errors take the path of torch's own function, at its cost.
"""

import types

import torch

from . import _C
from ._operator_docs import doc_of

_known, _refused = set(), set()
_Packet = _C.packet_class(torch._ops.OpOverloadPacket)
_Packet.__doc__ = property(doc_of)  # a property, so the file is read only when needed
_Namespace = _C.namespace_class(torch._ops._OpNamespace)
_Namespace.__module__ = torch._ops._OpNamespace.__module__  # packets are named by it


def shorten_calls():
    """Shortens calls of all operators defined so far, and of names whose definition was refused; these raise the reason."""
    refused = set(_C.refused_operators())
    for name in _refused - refused:  # it is defined now; without the old packet torch looks it up again
        _known.discard(name)
        vars(getattr(torch.ops, name.split("::")[0])).pop(name.split("::")[1], None)
    for name in refused - _refused:
        _shorten(name)
    _refused.clear()
    _refused.update(refused)
    for schema in _C.operators():
        name = schema.split("(")[0]
        if name not in _known:
            _known.add(name)
            _shorten(name)


def _shorten(name):
    namespace, bare = name.split("::")
    operators = getattr(torch.ops, namespace)
    if type(operators) is torch._ops._OpNamespace:
        operators.__class__ = _Namespace
    packet = getattr(operators, bare)
    for called in (packet, packet.default):
        # A private name of torch: if it has changed, calls are not shortened.
        if type(getattr(called, "_op", None)) is types.BuiltinFunctionType:
            called._op = _C.operator_call(called._op, name)
            # torch.jit.script finds operators by their function.
            torch.jit._builtins._register_builtin(called._op, name)
    if isinstance(packet._op, _C.OperatorCall) and type(packet) is torch._ops.OpOverloadPacket:
        packet.__class__ = _Packet


shorten_calls()
_C.on_definition(shorten_calls)
