"""Random calls of operators: the CPU, Meta and FakeTensor agree on shapes, dtypes and strides, or all refuse with an
error."""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from fuzz import cases

# A case is {"operator", "args", "kwargs"}; {"sizes", "strides", "dtype", "values"} stands for a tensor, {"dtype"} for a
# dtype.
DTYPES = """
    bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 float8_e4m3fn
    float8_e5m2
""".split()
WORDS = ["none", "silu", "gelu", "relu", "tanh", "mean", "sum", "top_left", "bottom_right", "keep", "", "é"]
NUMBERS = [0, 1, -1, 2, 3, 5, 8, 64, 257, -100, 2**31, -(2**31), 2**62, -(2**63)]
FLOATS = [0.0, -1.0, 0.5, 1.0, 2.0, 1e-5, 1e300, float("inf"), float("-inf"), float("nan")]
INNER = re.compile(
    r"INTERNAL ASSERT|Exception raised from|internal error|vector::|basic_string|bad_alloc|std::|"
    r"__torch_dispatch__|SymInt \*|please report"
)
# Looks at elements or at memory, which Meta and FakeTensor have none of: the CPU alone refuses.
OF_VALUES = re.compile(
    r"overlap|cu_seqlens|lengths|block_table|target|indices|position_ids|page|found_inf|"
    r"is out of range"
)


def encoded(x):
    import torch

    if isinstance(x, torch.Tensor):
        values = x.detach().reshape(-1).tolist() if not x.is_floating_point() and x.numel() < 20 else []
        return {"sizes": list(x.shape), "strides": list(x.stride()), "dtype": str(x.dtype)[6:], "values": values}
    if isinstance(x, torch.dtype):
        return {"dtype": str(x)[6:]}
    return [encoded(each) for each in x] if isinstance(x, (list, tuple)) else x


def tensor(row, device):
    import torch

    dtype, sizes, strides = getattr(torch, row["dtype"]), row["sizes"], row["strides"]
    span = 1 + sum((n - 1) * s for n, s in zip(sizes, strides)) if 0 not in sizes else 0
    if device == "meta":
        return torch.empty(span, dtype=dtype, device="meta").as_strided(sizes, strides)
    memory = torch.zeros(span, dtype=dtype)
    x = memory.as_strided(sizes, strides)
    if len(row["values"]) == x.numel() == span:
        x.copy_(torch.tensor(row["values"], dtype=dtype).reshape(sizes))
    return x


def decoded(x, device):
    import torch

    if isinstance(x, dict):
        return tensor(x, device) if "sizes" in x else getattr(torch, x["dtype"])
    return [decoded(each, device) for each in x] if isinstance(x, list) else x


def outcome(case, where):
    """Returns the outcome of a call: (shapes, dtypes, strides), or its error."""
    import contextlib
    import logging

    import tile_ops  # noqa: F401
    import torch
    from torch._subclasses import FakeTensorMode

    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # it logs each error
    operator = getattr(torch.ops.tile, case["operator"]).default
    mode = FakeTensorMode() if where == "fake" else contextlib.nullcontext()
    with torch.no_grad(), mode:
        device = "meta" if where == "meta" else "cpu"
        args, kwargs = decoded(case["args"], device), {k: decoded(v, device) for k, v in case["kwargs"].items()}
        try:
            results = operator(*args, **kwargs)
        except Exception as error:
            known = ValueError, TypeError, RuntimeError, NotImplementedError, OverflowError
            if not isinstance(error, known):
                raise
            return None, f"{type(error).__name__}: {error}"
    results = results if isinstance(results, (tuple, list)) else [results]
    flat = torch.utils._pytree.tree_leaves(results)
    # Strides that lead nowhere are others in torch's own empty_like on Meta than on the CPU.
    tensors = [r for r in flat if isinstance(r, torch.Tensor)]
    steps = [[s for n, s in zip(r.shape, r.stride()) if n > 1 and r.numel()] for r in tensors]
    return [(tuple(r.shape), r.dtype, steps) for r, steps in zip(tensors, steps)], ""


def check(text):
    case = json.loads(text)
    found = {where: outcome(case, where) for where in ("meta", "fake", "cpu")}
    for where, (_, error) in found.items():
        if INNER.search(error):
            raise cases.Broken(f"{where} refuses with {error}\n{text}")
    (meta, why), (fake, _), (cpu, _) = found.values()
    if meta is None and fake is None and cpu is None:
        return
    if cpu is None and meta == fake and OF_VALUES.search(found["cpu"][1]):
        return
    if not meta == fake == cpu:
        raise cases.Broken("\n".join([*(f"{where}: {got or error}" for where, (got, error) in found.items()), text]))


def dense(sizes):
    strides, step = [], 1
    for n in reversed(sizes):
        strides.insert(0, step)
        step *= max(n, 1)
    return strides


def changed_tensor(row, rng):
    sizes, strides, dtype = list(row["sizes"]), list(row["strides"]), row["dtype"]
    how = rng.randrange(8)
    at = rng.randrange(len(sizes)) if sizes else None
    if how == 0:
        dtype = rng.choice(DTYPES)
    elif how == 1 and sizes:
        sizes[at] = rng.choice([0, 1, 2, 3, 4, 5, 7, 16, 17, 33])
        strides = dense(sizes)
    elif how == 2 and sizes:
        del sizes[at], strides[at]
    elif how == 3:
        sizes.insert(rng.randint(0, len(sizes)), rng.choice([0, 1, 1, 2, 3]))
        strides = dense(sizes)
    elif how == 4:
        order = rng.sample(range(len(sizes)), len(sizes))
        turned = dense([sizes[i] for i in order])
        strides = [turned[order.index(i)] for i in range(len(sizes))]
    elif how == 5 and sizes:
        strides[at] = rng.choice([0, 1, strides[at] * 2, strides[at] + 1])
    elif how == 6 and sizes:
        strides = [s * 2 for s in strides]
    elif how == 7 and sizes:
        to = rng.randrange(len(sizes))
        sizes[at], sizes[to] = sizes[to], sizes[at]
        strides = dense(sizes)
    return {"sizes": sizes, "strides": strides, "dtype": dtype, "values": row["values"]}


def changed(x, rng):
    if isinstance(x, dict):
        return changed_tensor(x, rng) if "sizes" in x else {"dtype": rng.choice(DTYPES)}
    if isinstance(x, bool):
        return not x
    if isinstance(x, int):
        return rng.choice([*NUMBERS, x + 1, x - 1])
    if isinstance(x, float):
        return rng.choice(FLOATS)
    if isinstance(x, str):
        return rng.choice(WORDS)
    if isinstance(x, list):
        x = list(x)
        if x and rng.random() < 0.7:
            at = rng.randrange(len(x))
            x[at] = changed(x[at], rng)
        elif x and rng.random() < 0.5:
            del x[rng.randrange(len(x))]
        else:
            x.insert(0, x[0] if x else 1)
    return x


def resized(x, old, new):
    """With one extent another wherever it occurs, so that the call may stay a good one."""
    if isinstance(x, dict) and "sizes" in x:
        sizes = [new if n == old else n for n in x["sizes"]]
        return {**x, "sizes": sizes, "strides": dense(sizes), "values": x["values"] if sizes == x["sizes"] else []}
    return [resized(each, old, new) for each in x] if isinstance(x, list) else x


def cast(x, old, new):
    if isinstance(x, dict) and "sizes" in x:
        return {**x, "dtype": new if x["dtype"] == old else x["dtype"]}
    return [cast(each, old, new) for each in x] if isinstance(x, list) else x


_bases = []


def make(rng):
    if not _bases:
        import tile_ops  # noqa: F401
        from fuzz.base_calls import record

        for function, args, kwargs in record():
            name = function._schema.name.split("::")[1]
            encoded_kwargs = {k: encoded(v) for k, v in kwargs.items()}
            _bases.append({"operator": name, "args": encoded(args), "kwargs": encoded_kwargs})
    base = rng.choice(_bases)
    case = {"operator": base["operator"], "args": list(base["args"]), "kwargs": dict(base["kwargs"])}
    if rng.random() < 0.5:
        old, new = rng.choice([2, 3, 4, 5]), rng.choice([0, 1, 2, 6, 8, 17, 40])
        case["args"] = resized(case["args"], old, new)
        case["kwargs"] = {k: resized(v, old, new) for k, v in case["kwargs"].items()}
    if rng.random() < 0.3:
        old, new = "float32", rng.choice(["float16", "bfloat16", "float64", "int32"])
        case["args"] = cast(case["args"], old, new)
        case["kwargs"] = {k: cast(v, old, new) for k, v in case["kwargs"].items()}
    for _ in range(rng.randint(0, 2)):
        arguments = [(case["args"], i) for i in range(len(case["args"]))] + [(case["kwargs"], k) for k in case["kwargs"]]
        where, key = rng.choice(arguments)
        where[key] = changed(where[key], rng)
    return json.dumps(case)


if __name__ == "__main__":
    cases.main(make, check, ".json")
