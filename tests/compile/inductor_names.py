"""Checks that a version of torch has every name of inductor on which python/tile_ops/_compile stands.

    python tests/compile/inductor_names.py            in this environment; it needs torch alone
    python tests/compile/inductor_names.py 2.11.0 …   in a new environment for each version, which pip installs

Prints the names that are missing; the exit status is 1 if there are any.
"""

import ast
import importlib
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "python" / "tile_ops" / "_compile"

# The sources reach these through objects: the module and the path in it.
REACHED = {
    "torch._inductor.codegen.simd": [
        "SIMDKernel.split_and_set_ranges",
        "SIMDKernel.mask_loads",
        "SIMDKernel.welford_reduce_fallback",
        "SIMDKernel.disable_reduction",
        "SIMDKernel.var_ranges",
        "SIMDKernel.index_dtype",
        "SIMDScheduling.can_fuse",
        "SIMDScheduling.create_tiling",
        "SIMDScheduling.codegen_node_schedule",
        "IterationRangesRoot.lookup",
    ],
    "torch._inductor.codegen.simd_kernel_features": [
        "SIMDKernelFeatures.reduction_nodes",
        "SIMDKernelFeatures.scheduler_nodes",
    ],
    "torch._inductor.codegen.common": ["device_codegens", "init_backend_registration", "DeferredLine", "IndentedBuffer.splice"],
    "torch._inductor.scheduler": [
        "Scheduler.can_buffer_be_removed_through_fusion",
        "has_triton",
        "BaseScheduling.codegen_comment",
        "BaseScheduling.free_buffers_in_scheduler",
    ],
    "torch._inductor.sizevars": [
        "SizeVarAllocator.statically_known_leq",
        "SizeVarAllocator.statically_known_multiple_of",
        "SizeVarAllocator.statically_known_equals",
    ],
    "torch._inductor.ir": [
        "ExternKernelNode",
        "Reduction.num_splits",
        "Reduction._unroll_reduction_fn",
        "get_reduction_combine_fn",
        "get_stride_order",
        "stride_order2fill_order",
        "Layout._pad_strides",
        "ReinterpretView",
        "TemplateBuffer.extract_read_writes",
        "IRNode.get_read_names",
    ],
    "torch._inductor.dependencies": ["extract_read_writes"],
    "torch._inductor.lowering": ["lowerings", "fallback_handler"],
    "torch._inductor.fx_passes.joint_graph": ["pass_patterns", "mul_softmax_pattern", "div_softmax_pattern"],
    "torch._inductor.config": [
        "cpu_backend",
        "split_reductions",
        "max_pointwise_cat_inputs",
        "post_grad_custom_pre_pass",
        "joint_custom_post_pass",
        "epilogue_fusion_first",
    ],
    "torch._dynamo.backends.registry": ["register_backend", "_COMPILER_FNS"],
    "torch._inductor.codegen.cpp_wrapper_cpu": ["CppWrapperCpu.generate_fallback_kernel_with_runtime_lookup_aot"],
    "torch._inductor.graph": ["GraphLowering.codegen_with_cpp_wrapper"],
    "torch._inductor.virtualized": ["V.set_aot_compilation", "V.set_extern_kernel_nodes"],
}


def imported(source):
    """Yields (module, name) of what a source imports from torch."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module and node.module.split(".")[0] == "torch":
            yield from ((node.module, each.name) for each in node.names)


def missing():
    """Returns the names that this torch lacks."""
    wanted = {found for path in sorted(SOURCES.glob("*.py")) for found in imported(path.read_text())}
    wanted |= {(module, path) for module, paths in REACHED.items() for path in paths}
    return [f"{module}: {path}" for module, path in sorted(wanted) if not has(module, path)]


def has(module, path):
    try:
        at = importlib.import_module(module)
        for part in path.split("."):
            at = getattr(at, part) if hasattr(at, part) else importlib.import_module(f"{at.__name__}.{part}")
    except (ImportError, AttributeError):
        return False
    return True


def check_version(version):
    """Runs this script in an environment with a version of torch; returns its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = pathlib.Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "-q", f"torch=={version}", "numpy"], check=True)
        return subprocess.run([python, __file__]).returncode


def main(versions):
    if versions:
        return max(check_version(version) for version in versions)
    import torch

    lacking = missing()
    print(f"torch {torch.__version__}: " + ("all names are there" if not lacking else "missing " + ", ".join(lacking)))
    return int(bool(lacking))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
