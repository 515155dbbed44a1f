"""The random stream of the fused CPU kernel, written a second time, in plain Python, from its description alone."""

from collections.abc import Iterator

WORD = 2**32 - 1
LANES, GROUP, GROUPS_IN_BLOCK, SURE_DRAWS = 16, 512, 16, 7


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 (Salmon et al. 2011)."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (right >> 32) ^ b ^ k, right & WORD, (left >> 32) ^ d ^ m, left & WORD
        k, m = (k + 0x9E3779B9) & WORD, (m + 0xBB67AE85) & WORD
    return [a, b, c, d]


def rotated(word: int, places: int) -> int:
    return (word << places | word >> (32 - places)) & WORD


def xoshiro(state: list[int]) -> int:
    """One number of xoshiro128++ (Blackman and Vigna 2021); moves the state on."""
    result = (rotated((state[0] + state[3]) & WORD, 7) + state[0]) & WORD
    shifted = state[1] << 9 & WORD
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = rotated(state[3], 11)
    return result


def group_below(lanes: list[list[int]], rate: int) -> list[int]:
    """One word a lane: the bits where U < rate, the rate in units of 2^-64."""
    below, undecided, draws = [0] * LANES, [WORD] * LANES, 0
    while rate and (draws < SURE_DRAWS or any(undecided)):
        bits = [xoshiro(lane) for lane in lanes]
        if rate >> 63:
            below = [done | (open_ & ~new) for done, open_, new in zip(below, undecided, bits, strict=True)]
            undecided = [open_ & new for open_, new in zip(undecided, bits, strict=True)]
        else:
            undecided = [open_ & ~new for open_, new in zip(undecided, bits, strict=True)]
        rate, draws = rate << 1 & (2**64 - 1), draws + 1
    return below


def float32_below(seed: int, rate: int, num_groups: int) -> Iterator[bool]:
    """Whether U < rate, for the float32 elements of a call in order."""
    for group in range(num_groups):
        block, first = divmod(group, GROUPS_IN_BLOCK)
        if first == 0:
            key = [seed & WORD, seed >> 32]
            lanes = [philox([block & WORD, block >> 32, lane, 0], key) for lane in range(LANES)]
        below = group_below(lanes, rate)
        yield from (bool(below[element % LANES] >> (31 - element // LANES) & 1) for element in range(GROUP))
