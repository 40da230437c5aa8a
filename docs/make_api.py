"""Makes the pages of the Python package from its docstrings, the text that help() shows; for docs/make_site.py."""

import importlib
import inspect
import re

import torch

# {page: (title, module, introduction, names)}; without names the module's own.
PAGES = {
    "package.md": (
        "The package tile_ops",
        "tile_ops",
        "`import tile_ops` registers the operators with torch. `tile_ops.<name>` is also the operator `torch.ops.tile.<name>`; "
        "[Operators](../operators.md) describes those. This page has the functions and classes around them.",
        ["patch", "unpatch", "inspect", "profile", "doctor", "synchronize", "compile_report", "aoti_compile_and_package",
         "enable_inductor_fusion", "disable_inductor_fusion", "kernel",
         "op", "elementwise", "reduction", "TorchOp", "derive", "Derivative", "cuda_kernel", "CudaKernel", "register_sharding",
         "register_flop_formulas"],
    ),
    "functional.md": (
        "tile_ops.functional",
        "tile_ops.functional",
        "These functions have the signatures of `torch.nn.functional` and call the operators. `tile_ops` has them, too.",
        ["linear", "gated_linear", "matmul", "dropout", "rope_", "scaled_dot_product_attention", "dropout_seed"],
    ),
    "nn.md": (
        "tile_ops.nn",
        "tile_ops.nn",
        "Modules over the operators. Those with the name of a torch module load its `state_dict`. `TransformerBlock` and its parts "
        "load that of a Llama layer.",
        None,
    ),
    "packs.md": (
        "tile_ops.packs",
        "tile_ops.packs",
        "Files of compiled GPU kernels; [On a GPU](../on_a_gpu.md#ship-compiled-kernels) explains them.",
        None,
    ),
    "optim.md": (
        "tile_ops.optim",
        "tile_ops.optim",
        "Optimizers with the signatures, states and `state_dict` of `torch.optim`.",
        ["AdamW"],
    ),
}  # fmt: skip
# A label begins an item: one of these words, or names of parameters at the begin of a line.
LABEL = re.compile(
    r"(?:^|(?<=[.:] )|(?<=\n))(Shapes|Dtypes|Errors|Units|Values|Parameters|Formula[\w ,]*|"
    r"(?<![^\n])[a-z_*][a-z_0-9*]*(?:, [a-z_*][a-z_0-9*]*)*): "
)


def escaped(text):
    """Returns plain text as Markdown; code in backquotes stays code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if i % 2 else re.sub(r"([\\*_<\[\]])", r"\\\1", part) for i, part in enumerate(parts))


def markdown(doc):
    """Returns a docstring as Markdown: labels become items of a list; indented lines are code."""
    made = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(doc)):
        if paragraph.startswith("    "):
            made.append(f"```text\n{inspect.cleandoc(paragraph)}\n```")
            continue
        if paragraph.startswith("- "):
            made.append(escaped(paragraph))
            continue
        first, *rest = LABEL.split(paragraph)
        if first.strip():
            made.append(escaped(" ".join(first.split())))
        items = []
        for label, text in zip(rest[::2], rest[1::2]):
            shown = f"**{label}:**" if label[0].isupper() else f"`{label}`:"
            items.append(f"- {shown} {escaped(' '.join(text.split()))}")
        if items:
            made.append("\n".join(items))
    return "\n\n".join(made)


def signature(function):
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    bare = [each for name, each in found.parameters.items() if name not in ("self", "cls")]
    text = str(found.replace(parameters=bare))
    text = re.sub(r"<(?:class|function|object) [^>]*>", "...", text).replace("NoneType", "None")
    return re.sub(r"\b(?:torch\.(?=Tensor)|typing\.|collections\.abc\.|torch\._prims_common\.)", "", text).replace("~", "")


def described(name, value):
    """Returns the entry of a function or class."""
    colons = "::::"
    kind = "class" if inspect.isclass(value) else "function"
    text = f"{colons}{{py:{kind}}} {name}{signature(value)}\n\n{markdown(value.__doc__)}\n\n"
    if kind == "class":
        for method, each in vars(value).items():
            if not method.startswith("_") and callable(each) and each.__doc__:
                text += f":::{{py:method}} {method}{signature(each)}\n\n{markdown(each.__doc__)}\n:::\n\n"
    return f"{text}{colons}\n\n"


def documented(name):
    """Returns {full name: value} of the entries of a page."""
    _, module, _, names = PAGES[name]
    owner = importlib.import_module(module)
    return {f"{module}.{each}": getattr(owner, each) for each in names or owner.__all__}


def page(name):
    title, _, introduction, _ = PAGES[name]
    return f"# {title}\n\n{introduction}\n\n" + "".join(described(*entry) for entry in documented(name).items())


def gradients():
    """Returns the page of the operators that autograd calls."""
    text = "# Gradients of the operators\n\nAutograd calls these operators of `torch.ops.tile`. [Operators](../operators.md) describes"
    text += " the gradients themselves.\n\n"
    names = sorted(
        {schema.name for schema in torch._C._jit_get_all_schemas() if re.fullmatch(r"tile::\w+_backward", schema.name)}
    )
    for name in names:
        schema, _, doc = getattr(torch.ops.tile, name.split("::")[1]).__doc__.partition("\n\n")
        text += f"## {name}\n\n```text\n{schema}\n```\n\n{markdown(doc)}\n\n"
    return text


def pages():
    """Returns {file name: text}."""
    return {name: page(name) for name in PAGES} | {"gradients.md": gradients()}
