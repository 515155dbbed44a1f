"""Independent events of one rate, drawn in plain torch: as the places of rare ones, or as the bits of whole words.

Both draw less, and in fewer passes, than one random number an element, which is what is slow in torch on a CPU.
"""

import math

import torch
from torch import Tensor

# Binary places of the rate compared in all words. Then 3 words in 200 have an undecided bit, and only these go on.
FIRST_PLACES = 12


def rare_places(num_elements: int, rate: float, *, generator: torch.Generator | None) -> Tensor:
    """Sorted indices below num_elements, each of them there with this rate, independently of the others."""
    if rate == 0.0 or num_elements == 0:
        return torch.empty(0, dtype=torch.int64, device="cpu")
    mean = num_elements * rate
    num_gaps = math.ceil(mean + 6.0 * math.sqrt(mean) + 16.0)  # enough but for one call in a thousand million
    ends = geometric_gaps(num_gaps, rate, longest=num_elements + 1, generator=generator).cumsum_(0)
    while ends[-1] <= num_elements:
        more = geometric_gaps(num_gaps, rate, longest=num_elements + 1, generator=generator).cumsum_(0)
        ends = torch.cat((ends, more.add_(ends[-1])))
    return ends[: int(torch.searchsorted(ends, num_elements, right=True))].sub_(1)


def geometric_gaps(num_gaps: int, rate: float, *, longest: int, generator: torch.Generator | None) -> Tensor:
    """Trials up to and with the first success, many times over; gaps longer than the tensor are cut."""
    uniform = torch.rand(num_gaps, dtype=torch.float64, device="cpu", generator=generator)
    # log(U) / log(1 - rate) is exponential, and its floor counts the failures before a success.
    trials = uniform.log_().div_(math.log1p(-rate)).add_(1.0)
    return trials.clamp_(max=longest).to(torch.int64)


def bernoulli_words(num_words: int, rate: float, *, generator: torch.Generator | None) -> Tensor:
    """int64 words of independent bits, each set with the rate."""
    # A bit is the comparison U < rate, from the most significant binary place on, undecided while the places agree.
    whole, rest = divmod(rate * 2**FIRST_PLACES, 1.0)
    places = f"{int(whole):0{FIRST_PLACES}b}"
    places = places if rest else places.rstrip("0")
    below = torch.zeros(num_words, dtype=torch.int64, device="cpu")
    undecided = ~below
    draws = below.new_empty((len(places), num_words)).random_(-(2**63), None, generator=generator)
    for place, draw in zip(places, draws.unbind(), strict=True):
        if place == "1":
            below.bitwise_or_(draw.bitwise_and_(undecided))
            undecided.bitwise_xor_(draw)
        else:
            undecided.bitwise_and_(draw)
    if rest:
        still = undecided.nonzero().squeeze(1)
        below[still] |= undecided[still] & bernoulli_bits(len(still), rest, generator=generator)
    return below


def bernoulli_bits(num_words: int, rate: float, *, generator: torch.Generator | None) -> Tensor:
    """The same with a float64 uniform a bit: slower, and exact to 53 binary places."""
    uniform = torch.rand((num_words, 64), dtype=torch.float64, device="cpu", generator=generator)
    return (uniform < rate).long().bitwise_left_shift_(torch.arange(64, device="cpu")).sum(1)


def spread(words: Tensor, dtype: torch.dtype) -> Tensor:
    """Each bit of int64 words as one integer of this dtype, all ones or all zeros."""
    width = torch.iinfo(dtype).bits
    shifts = torch.arange(width, dtype=dtype, device=words.device).unsqueeze(1)
    return (words.view(dtype) << shifts).bitwise_right_shift_(width - 1).flatten()
