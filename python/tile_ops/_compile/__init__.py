"""torch.compile(model, backend="tile"): inductor's graphs, with kernels of ours and without a C++ compiler."""

from .._on_import import when_imported


def register():
    """Lets torch.compile find the backend by its name once tile_ops is imported; installed packages also have an entry point."""

    def tell(registry):
        if "tile" not in registry._COMPILER_FNS:
            registry.register_backend(backend, name="tile")

    when_imported("torch._dynamo.backends.registry", tell)


def backend(gm, example_inputs, *, mode=None, options=None):
    """Compiles a graph of Dynamo."""
    from .compiler import compile_graph  # here, so that `import tile_ops` does not wait for it

    return compile_graph(gm, example_inputs, mode, options)
