"""Functions that a patched forward calls and that call torch's: attention functions of tables, and processors.

Their source is rewritten once, so that torch's functions go through calls.call. A function whose source is not there, or which
may reach torch's functions in another way, runs under a mode instead; there every call of torch costs more.
"""

import functools
import inspect
import sys
import types

import torch

from . import calls, match, redirect, source_rewrite

KNOWN = match.NAMES - {redirect.TABLE}  # names of functions that calls.call replaces
MOST = 256  # functions that are looked at


def _is_another_s(function):
    """Returns True for a function of Python's library or of torch, which call no function that is swapped by name."""
    package = (function.__module__ or "").split(".")[0]
    return package == "torch" or package in sys.stdlib_module_names


def _reached(function, owner):
    """Yields the Python functions that a function may call: globals, functions of modules, and methods of the class `owner`."""
    space = inspect.unwrap(function).__globals__
    names = {name for code in match._codes(function) for name in code.co_names}
    spaces = [space, *(vars(space[name]) for name in names if isinstance(space.get(name), types.ModuleType))]
    for name in names - KNOWN:
        for found in (inspect.getattr_static(owner, name, None), *(each.get(name) for each in spaces)):
            found = getattr(found, "__func__", found)
            if isinstance(found, types.FunctionType) and not _is_another_s(found):
                yield found


def calls_only_directly(function, owner=object):
    """Returns True if no function that this one calls, itself or through others, names a function that is swapped."""
    waiting, seen = list(_reached(function, owner)), set()
    while waiting:
        each = waiting.pop()
        if each in seen or each is function:
            continue
        seen.add(each)
        if match._names(each) or len(seen) > MOST:
            return False
        waiting += _reached(each, owner)
    return True


@functools.cache
def _rewritten(function, owner):
    """Returns the function with its calls of torch's functions replaced, or None if a mode has to do that."""
    if not isinstance(function, types.FunctionType) or match._names(function) - KNOWN:
        return None
    if not calls_only_directly(function, owner):
        return None
    if not match._names(function):
        return function
    return source_rewrite.given(function, [redirect.redirect(KNOWN, "tile_call")], tile_call=calls.call)


def interface(function):
    """Returns an attention function of a table, with torch's functions replaced inside it."""
    made = None
    if not torch.compiler.is_dynamo_compiling() and isinstance(function, types.FunctionType):
        made = _rewritten(function, object)
    return functools.partial(calls.within, function) if made is None else made


def processor(processor, *args, **kwargs):
    """Calls a processor of diffusers with torch's functions replaced inside it."""
    made = None
    if not torch.compiler.is_dynamo_compiling() and not isinstance(processor, torch.nn.Module) and args:
        made = _rewritten(type(processor).__call__, type(args[0]))
    return calls.within(processor, *args, **kwargs) if made is None else made(processor, *args, **kwargs)
