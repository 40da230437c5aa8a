"""The denoiser's data (small generated pictures), its loss, and sampling of pictures from noise."""

import math

import torch

SIZE, BATCH = 16, 24


def draw(count, generator):
    """Draws discs, squares and crosses of random position and size: [count, 1, SIZE, SIZE] from -1 (paper) to 1 (ink)."""

    device = generator.device

    def uniform(low, high):
        return low + (high - low) * torch.rand(count, 1, 1, generator=generator, device=device)

    line = torch.arange(SIZE, device=device) + 0.5
    x, y = line - uniform(5, SIZE - 5), line[:, None] - uniform(5, SIZE - 5)
    radius = uniform(2.5, 4.5)
    disc = radius - (x * x + y * y).sqrt()
    square = radius - torch.maximum(x.abs(), y.abs()) * 1.1
    cross = torch.minimum(1.2 - torch.minimum(x.abs(), y.abs()), radius - torch.maximum(x.abs(), y.abs()))
    kind = torch.randint(3, (count, 1, 1), generator=generator, device=device)
    inside = torch.where(kind == 0, disc, torch.where(kind == 1, square, cross))  # distance to the edge in pixels
    return (2 * inside).clamp(-1, 1)[:, None]


def mix(pictures, noise, time):
    """Returns the picture at time 0 and noise at time 1."""
    angle = time * (math.pi / 2)
    return pictures * angle.cos() + noise * angle.sin()


def loss(model, step):
    generator = torch.Generator().manual_seed(step)
    pictures = draw(BATCH, generator)
    noise = torch.randn(pictures.shape, generator=generator, device=generator.device)
    time = 0.02 + 0.97 * torch.rand(BATCH, generator=generator, device=generator.device)
    # The batch does not depend on the model's device.
    pictures, noise, time = (tensor.to(next(model.parameters()).device) for tensor in (pictures, noise, time))
    return (model(mix(pictures, noise, time[:, None, None, None]), time) - noise).square().mean()


@torch.no_grad()
def sample(model, count, steps=40):
    """Turns noise into pictures, in `steps` small steps back in time."""
    device, generator = next(model.parameters()).device, torch.Generator().manual_seed(1)
    x = torch.randn(count, 1, SIZE, SIZE, generator=generator, device=generator.device).to(device)
    times = torch.linspace(0.99, 0.0, steps + 1, device=device)
    for now, then in zip(times, times[1:]):
        noise = model(x, now.expand(count))
        angle = now * (math.pi / 2)
        picture = ((x - noise * angle.sin()) / angle.cos()).clamp(-1, 1)
        noise = (x - picture * angle.cos()) / angle.sin()
        x = mix(picture, noise, then)
    return x
