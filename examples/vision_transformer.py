"""A vision transformer in plain PyTorch; its defaults are ViT-Ti/16."""

import torch
from torch import nn
from torch.nn import functional as F


# Width of an attention head, the same in all sizes of ViT.
HEAD_DIM = 64


class Block(nn.Module):
    """Attention and a multilayer perceptron, each after a layer norm and with a residual connection."""

    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        rows, tokens, dim = x.shape
        qkv = self.qkv(self.norm1(x)).view(rows, tokens, 3, dim // HEAD_DIM, HEAD_DIM)
        attended = F.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4))
        x = x + self.out(attended.transpose(1, 2).reshape(rows, tokens, dim))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Images [rows, 3, side, side] to a class token [rows, dim] and patch tokens [rows, patches, dim].

    `size` is the side for which positions are learned; for others they are interpolated. `dim` is a multiple of 64.
    """

    def __init__(self, size=224, patch=16, dim=192, depth=12):
        super().__init__()
        self.grid = size // patch
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.mask_token = nn.Parameter(torch.zeros(dim))
        self.positions = nn.Parameter(0.02 * torch.randn(1, dim, self.grid, self.grid))
        self.blocks = nn.Sequential(*(Block(dim) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim)

    def forward(self, images, masks=None):
        """`masks` is bool [rows, patches]; where it is true, the mask token replaces the patch."""
        patches = self.patches(images)
        side = patches.shape[-1]
        positions = self.positions
        if side != self.grid:
            positions = F.interpolate(positions, (side, side), mode="bicubic")
        patches = patches.flatten(2).transpose(1, 2)
        if masks is not None:
            patches = torch.where(masks.unsqueeze(-1), self.mask_token, patches)
        patches = patches + positions.flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(patches), -1, -1), patches], 1)
        tokens = self.norm(self.blocks(tokens))
        return tokens[:, 0], tokens[:, 1:]
