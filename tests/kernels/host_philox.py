"""The random bits of the Triton programs, computed on the host with integers that do not overflow."""

import torch
from torch import Tensor


def philox(counter: list[Tensor], key: tuple[int, int]) -> list[Tensor]:
    """Philox4x32-10 in int64 arithmetic, products taken in 16-bit parts so that none overflows."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        (high_0, low_0), (high_2, low_2) = wide_product(c0, 0xD2511F53), wide_product(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = high_2 ^ c1 ^ k0, low_2, high_0 ^ c3 ^ k1, low_0
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return [c0, c1, c2, c3]


def wide_product(a: Tensor, b: int) -> tuple[Tensor, Tensor]:
    low = a * (b & 0xFFFF)
    high = a * (b >> 16) + (low >> 16)
    return high >> 16, ((high & 0xFFFF) << 16) | (low & 0xFFFF)


def host_uniforms(num_blocks: int, *, groups: int, seed: int, offset: int) -> Tensor:
    """The 37-bit uniforms of whole blocks, in the order of the elements."""
    group = torch.arange(num_blocks * groups)
    stream = [torch.full_like(group, offset % 2**32), torch.full_like(group, offset >> 32)]
    words = philox([group, *stream, torch.full_like(group, 0x41494431)], (seed % 2**32, seed >> 32))
    halves = torch.stack([torch.stack([word >> 16 for word in words], 1), torch.stack([w & 0xFFFF for w in words], 1)])
    low = [((word >> 16 & 7) << 12 | word & 7) << 3 * j for j, word in enumerate(words)]
    shared = low[0] | low[1] | low[2] | low[3]
    uniforms = ((halves >> 3) << 24 | shared[None, :, None]).double() / 2**37
    return uniforms.view(2, num_blocks, groups * 4).transpose(0, 1).flatten()
