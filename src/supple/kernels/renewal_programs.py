"""The Triton programs of renewal: CBP's choice of units, what is written of them, and the steps of renewed entries.

Each takes one launch where torch's operations take ten to thirty. A program that finds nothing due or nothing young
ends at once.
"""

import triton
import triton.language as tl

LARGE = tl.constexpr(3e38)  # ranked behind every utility, and before a unit that was taken already


@triton.jit
def choose_kernel(
    age: tl.tensor,
    utility: tl.tensor,
    budget: tl.tensor,
    value: tl.tensor,
    units: tl.tensor,
    due: tl.tensor,
    num_units: tl.tensor,
    maturity: tl.tensor,
    WEIGHT: tl.constexpr,
    LOG_DECAY: tl.constexpr,
    RATE: tl.constexpr,
    NUM_SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Add a step's values, pay from the budget, pick the lowest of the mature units, and forget those that are due."""
    at = tl.arange(0, BLOCK)
    real = at < num_units
    ages = tl.load(age + at, mask=real, other=1)
    before, new = tl.load(utility + at, mask=real, other=0.0), tl.load(value + at, mask=real, other=0.0)
    now = before + tl.where(tl.abs(new) < float("inf"), new - before, 0.0) * WEIGHT
    mature = real & (ages > maturity)
    num_mature = tl.sum(mature.to(tl.int32), axis=0).to(tl.float64)
    funds = tl.load(budget) + num_mature * tl.full([], RATE, tl.float64)
    paid = tl.minimum(tl.floor(funds), tl.full([], NUM_SLOTS, tl.float64))
    tl.store(budget, funds - paid)
    num_due = tl.minimum(paid, num_mature)
    correction = 1.0 - tl.exp2(ages.to(tl.float64) * tl.full([], LOG_DECAY, tl.float64))
    ranked = tl.where(mature, tl.minimum(now / correction.to(tl.float32), LARGE), LARGE)
    ranked = tl.where(real, ranked, float("inf"))
    is_renewed = at < 0
    for slot in tl.static_range(NUM_SLOTS):
        unit = tl.argmin(ranked, axis=0)
        is_due = num_due > slot
        tl.store(units + slot, unit.to(tl.int64))
        tl.store(due + slot, is_due)
        ranked = tl.where(at == unit, float("inf"), ranked)
        is_renewed = is_renewed | (at == tl.where(is_due, unit, -1))
    tl.store(age + at, tl.where(is_renewed, 0, ages), mask=real)
    tl.store(utility + at, tl.where(is_renewed, 0.0, now), mask=real)


@triton.jit
def renew_kernel(
    parameter: tl.tensor,
    mean: tl.tensor,
    square: tl.tensor,
    largest: tl.tensor,
    born: tl.tensor,
    step: tl.tensor,
    units: tl.tensor,
    due: tl.tensor,
    drawn: tl.tensor,
    value: tl.tensor,
    num_rows: tl.tensor,
    num_columns: tl.tensor,
    inner: tl.tensor,
    ALONG: tl.constexpr,  # the dimension of the units: 0 or 1
    DRAWN: tl.constexpr,
    NUM_MOMENTS: tl.constexpr,
    HAS_BORN: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Write the entries of one unit that is due, and clear what Adam remembers of them."""
    slot = tl.program_id(0)
    if tl.load(due + slot):
        unit = tl.load(units + slot)
        at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        length = num_columns * inner if ALONG == 0 else num_rows * inner
        entry = unit * length + at
        if ALONG == 1:
            entry = (at // inner).to(tl.int64) * num_columns * inner + unit * inner + at % inner
        inside = at < length
        zeros = tl.zeros([BLOCK], tl.float32)
        new = zeros + value
        if DRAWN:
            new = tl.load(drawn + slot * length + at, mask=inside)
        tl.store(parameter + entry, new, mask=inside)
        if NUM_MOMENTS > 0:
            tl.store(mean + entry, zeros, mask=inside)
            tl.store(square + entry, zeros, mask=inside)
        if NUM_MOMENTS > 2:
            tl.store(largest + entry, zeros, mask=inside)
        if HAS_BORN:
            tl.store(born + unit, tl.load(step))


@triton.jit
def scales(age: tl.tensor, lr: tl.tensor, LOG_1: tl.constexpr, LOG_2: tl.constexpr, EPS: tl.constexpr) -> tl.tuple:
    """The rate and epsilon of an age, as methods/renewal.py has them."""
    first = 1.0 - tl.exp2(age.to(tl.float64) * tl.full([], LOG_1, tl.float64))
    root = tl.sqrt(1.0 - tl.exp2(age.to(tl.float64) * tl.full([], LOG_2, tl.float64)))
    return (lr * root / first).to(tl.float32), (root * tl.full([], EPS, tl.float64)).to(tl.float32)


@triton.jit
def ages_along(born: tl.tensor, at: tl.tensor, inside: tl.tensor, now: tl.tensor, last: tl.tensor) -> tl.tuple:
    """The ages of the indices along one dimension. Births after the present step are forgotten."""
    births = tl.load(born + at, mask=inside, other=0.0)
    births = tl.where(births > now, 0.0, births)
    is_stepped = tl.zeros_like(births) + last != now  # not if it had no gradient
    return births, tl.where(is_stepped & (births < now), now - births, now)


@triton.jit
def own_steps_kernel(
    parameter: tl.tensor,
    mean: tl.tensor,
    square: tl.tensor,
    rows_born: tl.tensor,
    columns_born: tl.tensor,
    step: tl.tensor,
    last_step: tl.tensor,
    num_rows: tl.tensor,
    num_columns: tl.tensor,
    inner: tl.tensor,
    lr: tl.tensor,  # a number, or a tensor that holds it
    IS_TENSOR: tl.constexpr,
    LOG_1: tl.constexpr,
    LOG_2: tl.constexpr,
    EPS: tl.constexpr,
    HAS_ROWS: tl.constexpr,
    HAS_COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Give the young entries of a tile the update of their own age in place of the one of the tensor's age."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    across = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    column = across // inner
    in_rows, in_columns = row < num_rows, across < num_columns * inner
    now, last = tl.load(step), tl.load(last_step)
    if IS_TENSOR:
        lr = tl.load(lr)
    age = tl.zeros([ROWS, COLUMNS], tl.float32) + now
    if HAS_ROWS:
        births, row_age = ages_along(rows_born, row, in_rows, now, last)
        if tl.program_id(1) == 0:
            tl.store(rows_born + row, births, mask=in_rows)
        age = tl.minimum(age, row_age[:, None])
    if HAS_COLUMNS:
        births, column_age = ages_along(columns_born, column, in_columns, now, last)
        if tl.program_id(0) == 0:
            tl.store(columns_born + column, births, mask=in_columns)
        age = tl.minimum(age, column_age[None, :])
    inside = in_rows[:, None] & in_columns[None, :]
    young = inside & (age < now)
    if tl.sum(tl.sum(young.to(tl.int32), axis=1), axis=0) > 0:
        tensors_rate, tensors_epsilon = scales(now, lr, LOG_1, LOG_2, EPS)
        rate = tl.zeros([ROWS, COLUMNS], tl.float32) + tensors_rate
        epsilon = tl.zeros([ROWS, COLUMNS], tl.float32) + tensors_epsilon
        if HAS_ROWS:
            own_rate, own_epsilon = scales(row_age, lr, LOG_1, LOG_2, EPS)
            rate = tl.where(row_age[:, None] == age, own_rate[:, None], rate)
            epsilon = tl.where(row_age[:, None] == age, own_epsilon[:, None], epsilon)
        if HAS_COLUMNS:
            own_rate, own_epsilon = scales(column_age, lr, LOG_1, LOG_2, EPS)
            rate = tl.where(column_age[None, :] == age, own_rate[None, :], rate)
            epsilon = tl.where(column_age[None, :] == age, own_epsilon[None, :], epsilon)
        entry = row[:, None].to(tl.int64) * num_columns * inner + across[None, :]
        m = tl.load(mean + entry, mask=young, other=0.0)
        root = tl.sqrt_rn(tl.load(square + entry, mask=young, other=0.0))
        update = tl.div_rn(m * rate, root + epsilon) - tl.div_rn(m * tensors_rate, root + tensors_epsilon)
        tl.store(parameter + entry, tl.load(parameter + entry, mask=young) - update, mask=young)
