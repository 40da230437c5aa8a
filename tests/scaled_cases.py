"""Scaled products: programs, arguments and what they give, in float64."""

import torch

TORCH = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}


def case(x_dtype, y_dtype, shape, each, batch=0):
    """(text, arguments, result); the last argument is to become the result. Scales reach over all exponents that
    leave products finite."""
    m, n, k = shape
    lead = (batch,) if batch else ()
    x = torch.randint(-2, 3, (*lead, m, k)).float().to(TORCH[x_dtype])
    y = torch.randint(-2, 3, (*lead, k, n)).float().to(TORCH[y_dtype])
    xs = torch.randint(124, 131, (*lead, m, k // each), dtype=torch.uint8)
    ys = torch.randint(124, 131, (*lead, k // each, n), dtype=torch.uint8)
    acc = torch.randint(-3, 4, (*lead, m, n)).float()

    def wide(scale, axis):
        return torch.exp2(scale.double() - 127).repeat_interleave(each, axis)

    result = (x.double() * wide(xs, -1)) @ (y.double() * wide(ys, -2)) + acc
    arrays = {"a": (x_dtype, x), "b": ("u8", xs), "c": (y_dtype, y), "d": ("u8", ys), "e": ("f32", acc)}
    rank = len(lead) + 2
    origin = ", ".join(["%z"] * rank)
    lines = ["%z: i32 = constant {dtype=i32, value=0}"]
    for name, (dtype, tensor) in arrays.items():
        sizes = list(tensor.shape)
        lines.append(
            f"%t{name}: {dtype}{sizes} = load %{name}, {origin} {{pad={'0' if dtype == 'u8' else '0.0'}, "
            f"shape={sizes}, steps={sizes}}}"
        )
    sizes = [*lead, m, n]
    lines.append(f"%r: f32{sizes} = mma_scaled %ta, %tb, %tc, %td, %te")
    lines.append(f"store %o, %r, {origin} {{steps={sizes}}}")
    parameters = ", ".join(f"%{name}: array<{dtype},{rank}>" for name, (dtype, _) in arrays.items())
    text = f"kernel k({parameters}, %o: array<f32,{rank}>) {{\n" + "\n".join(lines) + "\n}\n"
    return text, [*(tensor for _, tensor in arrays.values()), torch.full((*lead, m, n), -1.0)], result.float()


PAIRS = [(x, y) for x in TORCH for y in TORCH]
SHAPES = [((16, 8, 64), 32, 0), ((5, 7, 6), 3, 0), ((32, 16, 96), 16, 2), ((1, 1, 1), 1, 0), ((16, 16, 32), 32, 3)]
