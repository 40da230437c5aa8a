"""The U-Net and the decoder of the VAE of Stable Diffusion 1.5."""

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel, logging

from . import Made, squares

logging.set_verbosity_error()  # else casting a model warns

# widths of the levels, layers of a level, heads, groups of a norm, width and length of the text, batch, side of a latent
UNETS = {
    "tiny": ((32, 64), 1, 4, 8, 16, 5, 1, 8),
    "small": ((64, 128, 256, 256), 1, 4, 32, 256, 77, 1, 32),
    "full": ((320, 640, 1280, 1280), 2, 8, 32, 768, 77, 8, 64),
}
# widths of the levels, layers of a level, groups of a norm, batch, side of a latent
VAES = {
    "tiny": ((16, 32), 1, 8, 1, 8),
    "small": ((32, 64, 128, 128), 1, 32, 1, 16),
    "full": ((128, 256, 512, 512), 2, 32, 4, 64),
}


def sample(output):
    return output.sample


def unet(scale):
    widths, layers, heads, groups, text, words, batch, side = UNETS[scale]
    levels = len(widths)
    module = UNet2DConditionModel(
        sample_size=side,
        block_out_channels=widths,
        layers_per_block=layers,
        attention_head_dim=heads,  # the number of heads, in spite of its name
        norm_num_groups=groups,
        cross_attention_dim=text,
        down_block_types=("CrossAttnDownBlock2D",) * (levels - 1) + ("DownBlock2D",),
        up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * (levels - 1),
    )
    inputs = {
        "sample": torch.randn(batch, 4, side, side),
        "timestep": torch.randint(0, 1000, (batch,)),
        "encoder_hidden_states": torch.randn(batch, words, text),
    }
    return Made(module, inputs, sample, squares(torch.randn(batch, 4, side, side)))


class Decoder(torch.nn.Module):
    """The half of the VAE that makes images of latents."""

    def __init__(self, vae):
        super().__init__()
        self.post_quant_conv, self.decoder = vae.post_quant_conv, vae.decoder

    def forward(self, latents):
        return self.decoder(self.post_quant_conv(latents))


def vae(scale):
    widths, layers, groups, batch, side = VAES[scale]
    levels = len(widths)
    pixels = side * 2 ** (levels - 1)
    module = AutoencoderKL(
        sample_size=pixels,
        block_out_channels=widths,
        layers_per_block=layers,
        norm_num_groups=groups,
        latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * levels,
        up_block_types=("UpDecoderBlock2D",) * levels,
    )
    loss = squares(torch.randn(batch, 3, pixels, pixels))
    return Made(Decoder(module), {"latents": torch.randn(batch, 4, side, side)}, lambda image: image, loss)
