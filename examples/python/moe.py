"""A mixture of experts: each row is multiplied by the weights of the experts it was sent to, and the products are added.

Rows are grouped by expert, and each group is filled up to whole tiles, so that a tile has one expert. A block gathers its
tile's rows where they lie, multiplies them by its expert's matrix, and writes one product for each pair of row and expert;
a sum over the pairs of a row, in a fixed order, is the result.
Source: Shazeer et al., "Outrageously large neural networks: the sparsely-gated mixture-of-experts layer", 2017."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def expert_kernel(
    x, weights, order, expert, share, out, K: int, TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int]
):
    i, j = tl.bid(0), tl.bid(1)
    pair, e = tl.load(order, i, TM), tl.load(expert, i, ())  # pair: row * K + which of its K experts; -1: filled up
    row, total = tl.where(pair < 0, -1, pair // K)[:, None], tl.zeros((TM, TN), tl.float32)
    for k in range(tl.num_tiles(x, 1, (TM, TK))):
        left = tl.gather(x, (row, k * TK + tl.arange(TK, dtype=tl.int32)[None, :]))  # 0 outside, where row is -1
        right = tl.load(weights, (e, k, j), (1, TK, TN), padding_mode=tl.PaddingMode.ZERO).reshape((TK, TN))
        total = tl.mma(left, right, total)
    total *= tl.gather(share, pair)[:, None]
    tl.scatter(out, (pair[:, None], j * TN + tl.arange(TN, dtype=tl.int32)[None, :]), total.astype(out.dtype))


def by_expert(choice, experts, tile):
    """(pairs of row and expert in the order of experts, -1 to fill up tiles; the expert of each tile). Sizes depend on the
    extents alone, so nothing waits for the device: tiles that are not needed hold -1."""
    flat = choice.reshape(-1)
    counts = torch.zeros(experts, dtype=torch.int64, device=flat.device).index_add_(0, flat, torch.ones_like(flat))
    tiles = (counts + tile - 1) // tile
    last = tiles.cumsum(0)
    count = tl.cdiv(len(flat), tile) + experts
    sorted_, pairs = flat.sort(stable=True)
    within = torch.arange(len(flat), device=flat.device) - (counts.cumsum(0) - counts)[sorted_]
    order = torch.full((count * tile,), -1, dtype=torch.int32, device=flat.device)
    order[(last - tiles)[sorted_] * tile + within] = pairs.int()
    expert = torch.searchsorted(last, torch.arange(count, device=flat.device), right=True)
    return order, expert.clamp(max=experts - 1).int()


@tile_ops.op("programs::moe(Tensor x, Tensor weights, Tensor choice, Tensor share) -> Tensor")
class moe:
    """The sum over k of share[row, k] * (x[row] @ weights[choice[row, k]]) for each row.

    x: [rows, inner]; weights: [experts, inner, columns] of x's dtype, float32, float16 or bfloat16; choice: [rows, k] of
    int64 below experts; share: [rows, k] of float32. Products are summed in float32, a row's experts in x's dtype.
    Error: ValueError where shapes or dtypes do not fit."""

    def outputs(x, weights, choice, share):
        fits = x.dim() == 2 and weights.dim() == 3 and x.shape[1] == weights.shape[1] and choice.dim() == 2
        if not fits or choice.shape != share.shape or len(choice) != len(x) or x.dtype != weights.dtype:
            raise ValueError(
                f"moe: x is {list(x.shape)} of {x.dtype}, weights {list(weights.shape)} of {weights.dtype}, choice "
                f"{list(choice.shape)}, share {list(share.shape)}; pass [rows, inner], [experts, inner, columns] of one "
                "dtype, and twice [rows, k]"
            )
        return x.new_empty(len(x), weights.shape[2])

    def run(x, weights, choice, share, out):
        tiles = (128, 128, 64) if x.dtype != torch.float32 and x.is_cuda else (32, 64, 32)
        order, expert = by_expert(choice, len(weights), tiles[0])
        products = x.new_empty(choice.numel(), weights.shape[2])
        grid = len(expert), tl.cdiv(weights.shape[2], tiles[1])
        expert_kernel[grid](x, weights, order, expert, share.reshape(-1), products, choice.shape[1], *tiles)
        torch.sum(products.view(*choice.shape, -1), 1, out=out)

    def grad(grad_out, x, weights, choice, share):
        rows, (k, experts) = len(x), (choice.shape[1], len(weights))
        spread, each = grad_out.repeat_interleave(k, 0), choice.reshape(-1, 1)
        one = torch.ones_like(each, dtype=torch.float32)
        back = moe(spread, weights.mT, each, one)  # before the shares, so that it serves both
        grad_share = (back.float() * x.repeat_interleave(k, 0)).sum(1).view(rows, k)
        grad_x = (back.view(rows, k, -1) * share.unsqueeze(2)).sum(1).to(x.dtype)
        scaled = spread * share.reshape(-1, 1).to(spread.dtype)
        parts = [x.repeat_interleave(k, 0).mT @ (scaled * (each == e)) for e in range(experts)]
        return grad_x, torch.stack(parts), None, grad_share


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, weights = torch.randn(200, 64, device=device), torch.randn(8, 64, 96, device=device)
    share, choice = torch.randn(200, 8, device=device).softmax(1).topk(2, 1)
    each = (x[:, None, None] @ weights[choice]).squeeze(2)
    torch.testing.assert_close(moe(x, weights, choice, share), (each * share[..., None]).sum(1), rtol=1e-4, atol=1e-4)
    print("mixture of 8 experts for", list(x.shape), "is there")
