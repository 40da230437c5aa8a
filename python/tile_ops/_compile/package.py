"""AOTInductor packages whose kernels are ours: programs load them from Python, and from C++ without Python."""

from .options import FALLBACK


def aoti_compile_and_package(exported_program, *, package_path=None, options: dict | None = None) -> str:
    """Compiles an exported program with kernels of tile_ops, and writes a package, as torch._inductor.aoti_compile_and_package does.

    exported_program: what torch.export.export returns. package_path: a path that ends in .pt2, or a file; None: a path in
    inductor's cache. options: those of torch.compile(backend="tile").

    Returns the path. torch._inductor.aoti_load_package(path) loads the package after `import tile_ops`, and
    torch::inductor::AOTIModelPackageLoader in a C++ program that links TileOps::tile_ops.

    Errors: ValueError for an unknown option, and for {"fallback": "eager"}; TypeError if the program is not exported.
    """
    import torch
    from torch._inductor.package import package_aoti

    from .compiler import compile_for_package

    if not isinstance(exported_program, torch.export.ExportedProgram):
        raise TypeError(
            f"a package is made of an ExportedProgram, not of a {type(exported_program).__name__}; call torch.export.export"
        )
    if exported_program.example_inputs is None:
        raise ValueError("the exported program has no example inputs; export it with them")
    if (options or {}).get(FALLBACK) == "eager":
        raise ValueError(f'a package cannot run operators one by one; pass "inductor" or "error" for options["{FALLBACK}"]')
    args, kwargs = exported_program.example_inputs
    files = compile_for_package(exported_program.module(check_guards=False), args, kwargs, options)
    if package_path is None:
        package_path = next(str(each).removesuffix(".so") for each in files if str(each).endswith(".so")) + ".pt2"
    return package_aoti(package_path, files)
