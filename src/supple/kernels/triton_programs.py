"""The Triton programs of interval-wise dropout: a forward that makes its random bits in registers, a scaled backward.

One Philox call serves a group of eight elements: 13 bits each, and 24 bits shared by the eight. An element is kept if
its 13 bits followed by the shared 24 are below the keep rate, so that a rate is exact to 37 bits in every dtype at half
the arithmetic of 32 bits an element. Each element's law is exact; two of a group are coupled only where the 13 bits of
both equal those of their rate, one pair in 2**26.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

OWN_BITS, SHARED_BITS = 13, 24
# torch's kernels leave the fourth counter word at 0: with another value there no bits are ever shared with theirs.
COUNTER_TAG = tl.constexpr(0x41494431)


@triton.jit
def philox(seed: tl.tensor, stream: tl.tensor, block: tl.tensor, GROUPS: tl.constexpr) -> tl.tuple:
    """Philox4x32-10 (Salmon et al. 2011), four words a group. tl.philox takes two products where one wide one does."""
    first, stream, seed = (block * GROUPS).to(tl.uint64), stream.to(tl.uint64), seed.to(tl.uint64)
    c0 = tl.arange(0, GROUPS).to(tl.uint32) + first.to(tl.uint32)
    c1 = tl.full([GROUPS], 0, tl.uint32) + stream.to(tl.uint32)
    c2 = tl.full([GROUPS], 0, tl.uint32) + (stream >> 32).to(tl.uint32)
    c3 = tl.full([GROUPS], COUNTER_TAG, tl.uint32) ^ (first >> 32).to(tl.uint32)
    key_0, key_1 = seed.to(tl.uint32), (seed >> 32).to(tl.uint32)
    for _ in tl.static_range(10):
        product_0 = c0.to(tl.uint64) * 0xD2511F53
        product_2 = c2.to(tl.uint64) * 0xCD9E8D57
        c0 = (product_2 >> 32).to(tl.uint32) ^ c1 ^ key_0
        c1 = product_2.to(tl.uint32)
        c2 = (product_0 >> 32).to(tl.uint32) ^ c3 ^ key_1
        c3 = product_0.to(tl.uint32)
        key_0 += 0x9E3779B9
        key_1 += 0xBB67AE85
    return c0, c1, c2, c3


@triton.jit
def shared_bits(w0: tl.tensor, w1: tl.tensor, w2: tl.tensor, w3: tl.tensor) -> tl.tensor:
    """24 bits a group: the low three of each of the eight 16-bit halves."""
    LOW: tl.constexpr = 0x00070007
    twelve_twice = (w0 & LOW) | (w1 & LOW) << 3 | (w2 & LOW) << 6 | (w3 & LOW) << 9
    return ((twelve_twice >> 4) | (twelve_twice & 0xFFF)).to(tl.int32)


@triton.jit
def group_threshold(rates: tl.tuple, j: tl.constexpr, shared: tl.tensor) -> tl.tensor:
    """The bound below which a 16-bit half keeps an element of interval j: its low three bits never decide."""
    own, rest = tl.cast(rates[2 * j], tl.int32), tl.cast(rates[2 * j + 1], tl.int32)
    threshold = (own + (shared < rest).to(tl.int32)) << 3
    return tl.reshape(tl.broadcast_to(threshold[:, None], [threshold.shape[0], 4]), [threshold.shape[0] * 4])


@triton.jit
def dropped(
    x: tl.tensor,
    half: tl.tensor,
    shared: tl.tensor,
    rates: tl.tuple,
    scale: tl.tensor,
    EDGES: tl.constexpr,
    SCALED: tl.constexpr,
    MARKED: tl.constexpr,
) -> tl.tensor:
    """x where its half-word is below its interval's threshold, else 0. Selected, not multiplied: inf * 0 is NaN."""
    value = x.to(tl.float32) if x.dtype.primitive_bitwidth < 32 else x
    threshold = group_threshold(rates, 0, shared)
    for j in tl.static_range(len(EDGES)):
        edge = tl.full([1], EDGES[j], value.dtype)  # a bare constant would be rounded to float32 for float64 too
        threshold = tl.where(value >= edge, group_threshold(rates, j + 1, shared), threshold)
    kept = (half.to(tl.int32) < threshold) | (value != value)
    if SCALED:
        x = (value * tl.cast(scale, value.dtype)).to(x.dtype)
    if MARKED:  # -0 for an element equal to 0, +0 for all other zeros. Triton writes a literal -0.0 as +0.
        return tl.where(value == 0, (tl.abs(value) * -1.0).to(x.dtype), tl.where(kept & (x != 0), x, 0.0))
    return tl.where(kept, x, 0.0)


@triton.jit
def drop_block(
    x_ptr: tl.tensor,
    y_ptr: tl.tensor,
    left: tl.tensor,
    seed: tl.tensor,
    stream: tl.tensor,
    block: tl.tensor,
    rates: tl.tuple,
    scale: tl.tensor,
    EDGES: tl.constexpr,
    SCALED: tl.constexpr,
    MARKED: tl.constexpr,
    GROUPS: tl.constexpr,
    WHOLE: tl.constexpr,
) -> None:
    """One block: a tile of four elements a group for the upper halves of its words, and one for the lower halves."""
    HALF: tl.constexpr = GROUPS * 4
    # Four neighbours a thread, in every dtype: the words of a group then lie where the elements do, and no thread
    # needs another's. Left alone, Triton gives a thread eight bfloat16 and moves the words through shared memory.
    upper = tl.max_contiguous(tl.arange(0, HALF), 4)
    lower = upper + HALF
    upper_mask = None if WHOLE else upper < left
    lower_mask = None if WHOLE else lower < left
    x_upper = tl.load(x_ptr + upper, mask=upper_mask)
    x_lower = tl.load(x_ptr + lower, mask=lower_mask)
    w0, w1, w2, w3 = philox(seed, stream, block, GROUPS)
    shared = shared_bits(w0, w1, w2, w3)
    words = tl.reshape(tl.join(tl.join(w0, w2), tl.join(w1, w3)), [HALF])
    tl.store(y_ptr + upper, dropped(x_upper, words >> 16, shared, rates, scale, EDGES, SCALED, MARKED), mask=upper_mask)
    tl.store(
        y_ptr + lower, dropped(x_lower, words & 0xFFFF, shared, rates, scale, EDGES, SCALED, MARKED), mask=lower_mask
    )


@triton.jit(do_not_specialize=["numel", "seed", "stream", "seed_ptr"])
def drop_kernel(
    x_ptr: tl.tensor,
    y_ptr: tl.tensor,
    numel: tl.int64,
    seed: tl.int64,
    stream: tl.int64,
    seed_ptr: tl.tensor,
    rates: tl.tuple,
    scale: tl.float64,
    EDGES: tl.constexpr,
    SCALED: tl.constexpr,
    MARKED: tl.constexpr,
    GROUPS: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """All of x, in memory order. The start of a block has 64 bits and what is added to it 32, at every size."""
    if OVERLAP:
        take_turn()
    block = tl.program_id(0).to(tl.int64)
    start = block * (GROUPS * 8)
    left = numel - start
    if seed_ptr is not None:
        seed = tl.load(seed_ptr)
    # The last block apart: a mask in the others would cost the wide loads wherever 16 does not divide numel.
    if left >= GROUPS * 8:
        drop_block(
            x_ptr + start, y_ptr + start, left, seed, stream, block, rates, scale, EDGES, SCALED, MARKED, GROUPS, True
        )
    else:
        drop_block(
            x_ptr + start, y_ptr + start, left, seed, stream, block, rates, scale, EDGES, SCALED, MARKED, GROUPS, False
        )


@triton.jit
def take_turn() -> None:
    """Let the next program's blocks come while this one runs; go on when the previous one's results are there."""
    gdc_launch_dependents()
    gdc_wait()


@triton.jit
def gate_block(
    grad_ptr: tl.tensor,
    y_ptr: tl.tensor,
    out_ptr: tl.tensor,
    left: tl.tensor,
    scale: tl.tensor,
    at_zero: tl.tensor,
    MARKED: tl.constexpr,
    BLOCK: tl.constexpr,
    WHOLE: tl.constexpr,
) -> None:
    """One block of the backward."""
    offset = tl.arange(0, BLOCK)
    mask = None if WHOLE else offset < left
    grad = tl.load(grad_ptr + offset, mask=mask)
    y = tl.load(y_ptr + offset, mask=mask)
    value = grad.to(tl.float32) if grad.dtype.primitive_bitwidth < 32 else grad
    gated = tl.where(y == 0, 0.0, value * tl.cast(scale, value.dtype))
    if MARKED:  # the sign bit in float32, which has it for every dtype
        is_marked = (y == 0) & (y.to(tl.float32).to(tl.int32, bitcast=True) < 0)
        gated = tl.where(is_marked, value * tl.cast(at_zero, value.dtype), gated)
    tl.store(out_ptr + offset, gated.to(grad.dtype), mask=mask)


@triton.jit(do_not_specialize=["numel"])
def gate_kernel(
    grad_ptr: tl.tensor,
    y_ptr: tl.tensor,
    out_ptr: tl.tensor,
    numel: tl.int64,
    scale: tl.float64,
    at_zero: tl.float64,
    MARKED: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """The backward: grad * scale where y is not 0, and grad * at_zero where it is -0."""
    if OVERLAP:
        take_turn()
    start = tl.program_id(0).to(tl.int64) * BLOCK
    left = numel - start
    if left >= BLOCK:
        gate_block(grad_ptr + start, y_ptr + start, out_ptr + start, left, scale, at_zero, MARKED, BLOCK, True)
    else:
        gate_block(grad_ptr + start, y_ptr + start, out_ptr + start, left, scale, at_zero, MARKED, BLOCK, False)
