"""Heat on a plate whose edges keep their temperature, with a source: explicit steps of a five-point stencil.

An inner point changes by r times (the sum of its four neighbours - 4 times itself), with r = a dt / dx^2. The
neighbours are the same matrix, shifted by one row or column, so that no tile needs a halo. Two plates alternate.
Courant, Friedrichs, Lewy, "On the partial difference equations of mathematical physics", 1928."""

import pathlib

import tile_ops
import tile_ops.language as tl
import torch

PICTURE = pathlib.Path("output", "heat.png")


def inner(array, down, right, R, C):
    """Returns the neighbours of the inner points at this distance down and right, or the points themselves."""
    rows = array.slice(1, 1 + down, array.shape[1] - 1 + down)
    return rows.slice(2, 1 + right, array.shape[2] - 1 + right).tiled_view((1, R, C))


@tl.kernel
def heat_kernel(u, source, out, r: float, R: tl.Constant[int], C: tl.Constant[int]):
    for plate in range(tl.bid(2), u.shape[0], tl.num_blocks(2)):
        index = plate, tl.bid(1), tl.bid(0)
        around = inner(u, -1, 0, R, C).load(index) + inner(u, 1, 0, R, C).load(index)
        around += inner(u, 0, -1, R, C).load(index) + inner(u, 0, 1, R, C).load(index)
        t = inner(u, 0, 0, R, C).load(index)
        inner(out, 0, 0, R, C).store(index, t + r * (around - 4 * t) + inner(source, 0, 0, R, C).load(index))


@tile_ops.op("programs::heat(Tensor u, Tensor source, float r, int steps) -> Tensor")
class heat:
    """The plate after `steps` steps u + r (left + right + above + below - 4 u) + source of its inner points.

    u, source: [..., rows, columns] of float32; the first and last row and column do not change. Steps are stable for 0
    < r <= 1/4. Error: ValueError otherwise."""

    def outputs(u, source, r, steps):
        if u.dim() < 2 or u.shape != source.shape or u.dtype != torch.float32 or source.dtype != torch.float32:
            raise ValueError(f"heat: u is {u.dtype} {list(u.shape)}, source {source.dtype} {list(source.shape)}; "
                             "pass twice [..., rows, columns] of float32")  # fmt: skip
        if not 0 < r <= 0.25 or steps < 0:
            raise ValueError(f"heat: r is {r} and steps {steps}; pass 0 < r <= 0.25 and no negative steps")
        return u.new_empty(u.shape)

    def run(u, source, r, steps, out):
        count = u.shape[:-2].numel()
        now, after, heated = (each.reshape(count, *u.shape[-2:]) for each in (u.contiguous().clone(), out, source))
        after.copy_(now)  # both plates need the edges; the last step writes to `out`
        if steps % 2 == 0:
            now, after = after, now
        rows, columns = (64, 512) if u.is_cpu else (8, 256)
        grid = tl.cdiv(u.shape[-1] - 2, columns), tl.cdiv(u.shape[-2] - 2, rows), min(len(now), 1024)
        for _ in range(steps if u.numel() and min(u.shape[-2:]) > 2 else 0):
            heat_kernel[grid](now, heated, after, r, rows, columns)
            now, after = after, now

    def grad(grad_out, r, steps):
        # Steps are symmetric among inner points, so the sum of the returning gradients is heat whose source is
        # grad_out.
        inside = torch.zeros_like(grad_out)
        inside[..., 1:-1, 1:-1] = grad_out[..., 1:-1, 1:-1]
        total = heat(torch.zeros_like(inside), inside, r, steps)
        wide = torch.nn.functional.pad(total, (1, 1, 1, 1))
        around = wide[..., 2:, 1:-1] + wide[..., :-2, 1:-1] + wide[..., 1:-1, 2:] + wide[..., 1:-1, :-2]
        return grad_out + r * (around - 4 * total), total


def colours(values):
    """Maps 0 to 1 to dark blue, red, yellow and white: bytes, [rows, columns, 3]."""
    stops = torch.tensor([[10, 10, 60], [150, 20, 90], [240, 110, 30], [255, 250, 220]], dtype=torch.float32, device="cpu")
    position = values.clamp(0, 1).cpu() * 3
    low = position.long().clamp(max=2)
    return torch.lerp(stops[low], stops[low + 1], (position - low).unsqueeze(-1)).byte()


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    y, x = torch.meshgrid(*2 * [torch.linspace(-1, 1, 256, device=device)], indexing="ij")
    plate = ((x**2 + y**2).sqrt() - 0.6).abs().lt(0.08).float()
    source = 0.002 * (x.abs() + y.abs() < 0.1).float()
    times = [heat(plate, source, 0.2, steps) for steps in (0, 200, 2000)]
    print("mean temperatures after 0, 200 and 2000 steps:", *(f"{each.mean().item():.4f}" for each in times))
    try:
        from PIL import Image
    except ImportError:
        print("without Pillow there is no picture")
    else:
        picture = colours(torch.cat(times, 1))
        PICTURE.parent.mkdir(exist_ok=True)
        Image.frombytes("RGB", (picture.shape[1], picture.shape[0]), bytes(picture.flatten().tolist())).save(PICTURE)
        print(PICTURE, "shows them")
