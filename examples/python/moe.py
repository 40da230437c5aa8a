"""Mixture of experts: each row is multiplied by the weights of the experts chosen for it, with gradients.

The choices are sorted by expert, and each expert's rows are padded to whole tiles, so that a tile has one expert. A
block gathers the rows of its tile, multiplies them by the expert's weights, and writes each product to its own slot;
the products of a row are then added in order. Nothing uses atomics or waits for the device. Method: Gale et al.,
"MegaBlocks: efficient sparse training with mixture-of-experts", 2022."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO


def gathered(array, rows, column, T):
    """Loads a tile of T columns from the given rows of an array of two axes; rows outside are 0."""
    return tl.load_advanced_indexing(array, (rows, tl.Slice(column * T, T)), padding_mode=ZERO)


@tl.kernel
def product_kernel(
    x, weights, slots, expert_of, routing, out, TOP: tl.Constant[int],
    TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int],
):  # fmt: skip
    i, j = tl.bid(0), tl.bid(1)
    expert, slot, acc = tl.load(expert_of, i, ()), tl.load(slots, i, TM), tl.zeros((TM, TN), tl.float32)
    if expert < weights.shape[0]:  # the last tiles have no expert
        for k in range(tl.num_tiles(weights, 1, (1, TK, TN))):
            right = tl.load(weights, (expert, k, j), (1, TK, TN), padding_mode=ZERO).reshape((TK, TN))
            acc = tl.mma(gathered(x, slot // TOP, k, TK), right, acc)
        acc *= tl.gather(routing, slot)[:, None]
        tl.store_advanced_indexing(out, (slot, tl.Slice(j * TN, TN)), acc)


@tl.kernel
def weight_kernel(
    x, grad, slots, ends, routing, grad_weights, TOP: tl.Constant[int],
    TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int],
):  # fmt: skip
    k, j, expert = tl.bid(0), tl.bid(1), tl.bid(2)
    acc = tl.zeros((TK, TN), tl.float32)
    for i in range(tl.load(ends, expert, ()) // TM, tl.load(ends, expert + 1, ()) // TM):
        slot = tl.load(slots, i, TM)
        right = gathered(grad, slot // TOP, j, TN).astype(tl.float32) * tl.gather(routing, slot)[:, None]
        acc = tl.mma(gathered(x, slot // TOP, k, TK).transpose(), right.astype(x.dtype), acc)
    tl.store(grad_weights, (expert, k, j), acc.astype(grad_weights.dtype).reshape((1, TK, TN)))


def by_expert(chosen, experts, T):
    """Returns (the slots of `chosen` by expert, each expert's padded to a multiple of T with the number of all slots;
    where each expert's slots begin, and the last one's end; the expert of each T slots, or `experts` if there is none).
    """
    found, order = chosen.reshape(-1).sort(stable=True)
    numbers = torch.arange(experts + 1, device=chosen.device)
    begins = torch.searchsorted(found, numbers)  # of each expert in `order`, and the end of the last one
    ends = torch.nn.functional.pad(((begins.diff() + T - 1) // T * T).cumsum(0), (1, 0))
    positions = torch.arange(len(order), device=chosen.device) + (ends - begins)[found]
    tiles = len(order) // T + experts  # upper bound
    slots = torch.full((tiles * T,), len(order), dtype=torch.int32, device=chosen.device)
    slots[positions] = order.int()
    tile_begins = torch.arange(0, tiles * T, T, device=chosen.device)
    return slots, ends.int(), (torch.searchsorted(ends, tile_begins, right=True) - 1).int()


def tiles(x):
    """Returns extents of tiles along rows, columns and the shared extent that suit the device."""
    return (32, 64, 64) if x.is_cpu else (64, 64, 32) if x.dtype == torch.float32 else (64, 128, 64)


def products(x, weights, chosen, routing):
    """Returns routing * x[row] @ weights[chosen], [rows, top, n], in float32."""
    tm, tn, tk = tiles(x)
    slots, _, expert_of = by_expert(chosen, len(weights), tm)
    top = max(chosen.shape[1], 1)
    out = x.new_empty(chosen.numel(), weights.shape[2], dtype=torch.float32)
    grid = len(expert_of), tl.cdiv(weights.shape[2], tn)
    product_kernel[grid](x, weights, slots, expert_of, routing.reshape(-1), out, top, tm, tn, tk)
    return out.view(*chosen.shape, weights.shape[2])


@tile_ops.op("programs::moe(Tensor x, Tensor weights, Tensor chosen, Tensor routing) -> Tensor")
class moe:
    """The sum over i of routing[row, i] * x[row] @ weights[chosen[row, i]].

    x: [rows, k]; weights: [experts, k, n]; chosen: [rows, top] of int64 below experts; routing: [rows, top]. All but
    chosen have one dtype, float32, float16 or bfloat16. Accumulates in float32. Error: ValueError if shapes or dtypes
    do not fit."""

    def outputs(x, weights, chosen, routing):
        fits = x.dim() == 2 and weights.dim() == 3 and chosen.dim() == 2 and routing.shape == chosen.shape
        if not fits or x.shape[1] != weights.shape[1] or x.shape[0] != chosen.shape[0]:
            raise ValueError(
                f"moe: x is {list(x.shape)}, weights {list(weights.shape)}, chosen {list(chosen.shape)}, "
                f"routing {list(routing.shape)}; pass [rows, k], [experts, k, n] and twice [rows, top]"
            )
        same = weights.dtype == routing.dtype == x.dtype and chosen.dtype == torch.int64
        if not same or x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise ValueError(
                f"moe: x is {x.dtype}, weights {weights.dtype}, chosen {chosen.dtype}, routing {routing.dtype}; "
                "pass torch.int64 as chosen, the others of one of float32, float16 and bfloat16"
            )
        return x.new_empty(x.shape[0], weights.shape[2])

    def run(x, weights, chosen, routing, out):
        out.copy_(products(x, weights, chosen, routing).sum(1))

    class grad:
        def outputs(x, weights, routing):
            return x.new_empty(x.shape), weights.new_empty(weights.shape), routing.new_empty(routing.shape)

        def run(grad_out, x, weights, chosen, routing, grad_x, grad_weights, grad_routing):
            back = products(grad_out, weights.mT, chosen, torch.ones_like(routing))
            grad_x.copy_((back * routing.unsqueeze(2)).sum(1))
            grad_routing.copy_((back * x.unsqueeze(1)).sum(2))
            tm, tn, tk = tiles(x)
            slots, ends, _ = by_expert(chosen, len(weights), tm)
            grid = tl.cdiv(x.shape[1], tk), tl.cdiv(weights.shape[2], tn), len(weights)
            arguments = x, grad_out, slots, ends, routing.reshape(-1), grad_weights, max(chosen.shape[1], 1)
            weight_kernel[grid](*arguments, tm, tn, tk)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, weights = (torch.randn(*size, device=device, requires_grad=True) for size in ((300, 100), (8, 100, 50)))
    routing, chosen = torch.randn(300, 8, device=device).softmax(1).topk(2)
    want = torch.einsum("rk,rtkn,rt->rn", x, weights[chosen], routing)
    torch.testing.assert_close(moe(x, weights, chosen, routing), want, rtol=1e-4, atol=1e-4)
    moe(x, weights, chosen, routing).square().sum().backward()
    print("two of", len(weights), "experts for each row of", list(x.shape), "and gradients:", x.grad.norm().item())
