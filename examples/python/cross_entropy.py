"""Cross entropy of logits with its gradient.

A block takes a row of logits in chunks, with a running maximum and sum, and saves the logarithm of the sum: the loss is
that minus the target's logit, and backward needs no second reduction. Rows whose target is `ignore_index` are not
counted. Formula: Goodfellow et al., "Deep learning", 2016, section 6.2.2."""

import math

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def forward_kernel(logits, target, loss, lse, ignored: int, N: tl.Constant[int]):
    row = tl.bid(0)
    tops, sums = tl.full((1, N), -math.inf, tl.float32), tl.zeros((1, N), tl.float32)
    for i in range(tl.num_tiles(logits, 1, (1, N))):
        t = tl.load(logits, (row, i), (1, N), padding_mode=tl.PaddingMode.NEG_INF).astype(tl.float32)
        new = tl.maximum(tops, t)
        safe = tl.where(new == -math.inf, 0.0, new)  # only -inf so far: exp returns zeros, not NaN
        sums = sums * tl.exp(tops - safe) + tl.exp(t - safe)
        tops = new
    top = tl.max(tops)
    log = top + tl.log(tl.sum(sums * tl.exp(tops - top)))
    label = tl.load(target, row, ())
    inside = (label >= 0) & (label < logits.shape[1])  # other labels give NaN, unless they are ignored
    chosen = tl.where(inside, tl.gather(logits, (row, label)).astype(tl.float32), math.nan)
    tl.store(loss, row, tl.where(label == ignored, 0.0, log - chosen))
    tl.store(lse, row, log)


@tl.kernel
def backward_kernel(grad, logits, target, lse, grad_logits, ignored: int, N: tl.Constant[int]):
    row, i = tl.bid(0), tl.bid(1)
    label = tl.load(target, row, ())
    scale = tl.where(label == ignored, 0.0, tl.load(grad, (), ()))
    t = tl.load(logits, (row, i), (1, N)).astype(tl.float32)
    hit = (i * N + tl.arange(N, dtype=tl.int32) == label)[None, :]
    slope = (tl.exp(t - tl.load(lse, row, ())) - hit.astype(tl.float32)) * scale
    tl.store(grad_logits, (row, i), slope.astype(grad_logits.dtype))


def width(logits):
    return min(4096, 1 << max(logits.shape[1] - 1, 0).bit_length())


@tile_ops.op("programs::cross_entropy(Tensor logits, Tensor target, int ignore_index=-100) -> Tensor")
class cross_entropy:
    """The mean of log(sum(exp(row))) - row[target] over the rows whose target is not ignore_index, as float32.

    logits: [rows, classes] of float32, float16 or bfloat16; target: [rows] of int64. The loss is NaN if a target is not
    a class, or if no row is counted. Error: ValueError if shapes or target's dtype do not fit."""

    saves = "Tensor lse"

    def outputs(logits, target):
        if logits.dim() != 2 or target.shape != logits.shape[:1] or target.dtype != torch.int64:
            raise ValueError(
                f"cross_entropy: logits is {list(logits.shape)}, target {list(target.shape)} of {target.dtype}; "
                "pass [rows, classes], and [rows] of int64"
            )
        return logits.new_empty((), dtype=torch.float32)

    def saved_outputs(logits):
        return logits.new_empty(logits.shape[0], dtype=torch.float32)

    def run(logits, target, ignore_index, out, lse):
        rows, classes = logits.shape
        loss = logits.new_empty(rows, dtype=torch.float32)
        lse = torch.empty_like(loss) if lse is None else lse
        forward_kernel[rows](logits, target, loss, lse, ignore_index, width(logits))
        torch.div(loss.sum(), (target != ignore_index).sum(), out=out)

    class grad:
        def outputs(logits):
            return logits.new_empty(logits.shape)

        def run(grad_out, logits, target, ignore_index, lse, grad_logits):
            grid = logits.shape[0], tl.cdiv(logits.shape[1], width(logits))
            grad_loss = grad_out / (target != ignore_index).sum()
            backward_kernel[grid](grad_loss, logits, target, lse, grad_logits, ignore_index, width(logits))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    logits = torch.randn(100, 32000, device=device, requires_grad=True)
    target = torch.randint(32000, (100,), device=device)
    torch.testing.assert_close(cross_entropy(logits, target), torch.nn.functional.cross_entropy(logits, target))
    cross_entropy(logits, target).backward()
    print("cross entropy of", list(logits.shape), "and its gradient are there:", logits.grad.norm().item())
