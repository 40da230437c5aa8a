"""Makes a page for each program of examples/python from what the file says, and their table; for docs/make_site.py."""

import ast
import inspect
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "python"
SCHEMA = re.compile(r"programs::(\w+)\(.*")


def lines_of_kernels(tree):
    """How many lines kernels and the functions of the file that they call take."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    wanted = [name for name, node in functions.items() if any("kernel" in ast.unparse(each) for each in node.decorator_list)]
    for name in wanted:  # grows
        named = {each.id for each in ast.walk(functions[name]) if isinstance(each, ast.Name)}
        wanted += sorted(named & functions.keys() - set(wanted))
    return sum(functions[name].end_lineno - functions[name].lineno + 1 for name in wanted)


def operators(tree):
    """(schema, docstring) of each operator, in the file's order."""
    for node in tree.body:
        for each in getattr(node, "decorator_list", ()):
            text = [part.value for part in ast.walk(each) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            if text and SCHEMA.fullmatch(text[0]):
                yield text[0], inspect.cleandoc(ast.get_docstring(node) or "")


def page(path):
    source = path.read_text()
    tree = ast.parse(source)
    title, _, text = ast.get_docstring(tree).partition("\n")
    body = source.split('"""', 2)[2].lstrip("\n")
    parts = [f"# {title.rstrip('.')}", text.strip()]
    for schema, doc in operators(tree):
        parts += [f"```\n{schema}\n```", doc]
    parts += [f"The file `examples/python/{path.name}` also runs as a program:", f"```python\n{body}```"]
    return "\n\n".join(part for part in parts if part) + "\n"


def table():
    text = """# Programs in Python

Each file of `examples/python` holds whole kernels and makes them a torch operator. A file runs as a program that compares
itself with torch, on the GPU if there is one. If you import it, it defines `torch.ops.programs.<name>`. Tests compare every
program and its gradients with float64, over odd shapes and dtypes, on a CPU and as a GPU runs it.
[Kernels in Python](../kernels_in_python.md) explains the language, and
[Operators in Python](../operators_in_python.md) explains the decorators.

| program | operators | lines of kernels |
|---|---|---|
"""
    for path in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text())
        title = ast.get_docstring(tree).partition("\n")[0].rstrip(".")
        names = ", ".join(f"`{SCHEMA.fullmatch(schema)[1]}`" for schema, _ in operators(tree))
        text += f"| [{title}]({path.stem}.md) | {names} | {lines_of_kernels(tree)} |\n"
    return text


def pages():
    """Returns {file name: text}."""
    return {"index.md": table()} | {f"{path.stem}.md": page(path) for path in sorted(FOLDER.glob("*.py"))}
