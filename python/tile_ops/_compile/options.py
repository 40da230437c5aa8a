"""Options of torch.compile(backend="tile", options={...}): ours, and the settings of inductor."""

import difflib

from .._products import VALUES as CHOICES

PRODUCTS, ATTENTION, LOSSES, FALLBACK = "products", "attention", "losses", "fallback"
VALUES = {PRODUCTS: CHOICES, ATTENTION: CHOICES, LOSSES: CHOICES, FALLBACK: ("eager", "inductor", "error")}


def split(options):
    """Returns (our options, settings of inductor); raises a ValueError for what is neither."""
    from torch._inductor import list_options

    own, settings, own_names = {}, {}, ", ".join(map(repr, VALUES))
    known = {*list_options(), "force_disable_caches"}  # which that list lacks
    for name, value in (options or {}).items():
        setting = name.replace("-", "_")
        if name in VALUES:
            if value not in VALUES[name]:
                raise ValueError(f'options["{name}"] is {value!r}; pass {_listed(VALUES[name])}')
            own[name] = value
        elif setting == "cpp_wrapper" and value:
            raise ValueError(
                f'options["{name}"]: only packages call kernels from C++; leave it out, or use tile_ops.aoti_compile_and_package'
            )
        elif setting in known:
            settings[setting] = value
        else:
            close = difflib.get_close_matches(name, [*VALUES, *known], 1, 0.75)
            raise ValueError(
                f'options has no "{name}"; pass {own_names} or a setting that torch._inductor.list_options() names'
                + (f", such as {close[0]!r}" if close else "")
            )
    return own, settings


def _listed(names):
    *first, last = map(repr, names)
    return f"{', '.join(first)} or {last}"
