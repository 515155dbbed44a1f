"""The Triton programs of renewal: CBP's choice of units, what is written of them, and the steps of renewed entries.

Each takes one launch for many tensors, where torch's operations take ten to thirty for one: on a small network a launch
costs as much as its work. A program that finds nothing due or nothing young ends at once.
"""

import triton
import triton.language as tl

LARGE = tl.constexpr(3e38)  # ranked behind every utility, and before a unit that was taken already


@triton.jit
def choose_kernel(
    age: tl.tensor,
    utility: tl.tensor,
    budget: tl.tensor,
    activity: tl.tensor,
    outgoing: tl.tensor,
    units: tl.tensor,
    due: tl.tensor,
    num_units: tl.tensor,
    activity_scale: tl.tensor,
    outgoing_scale: tl.tensor,
    maturity: tl.tensor,
    WEIGHT: tl.constexpr,
    LOG_DECAY: tl.constexpr,
    RATE: tl.constexpr,
    NUM_SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Add a step and its values, pay from the budget, pick the lowest mature units, and forget those that are due."""
    at = tl.arange(0, BLOCK)
    real = at < num_units
    ages = tl.load(age + at, mask=real, other=0) + 1
    active = tl.load(activity + at, mask=real, other=0.0) * activity_scale
    new = active * (tl.load(outgoing + at, mask=real, other=0.0) * outgoing_scale)
    before = tl.load(utility + at, mask=real, other=0.0)
    # First what is a number, then the difference: so the product is rounded, and not one operation with it.
    now = before + (tl.where(tl.abs(new) < float("inf"), new, before) - before) * WEIGHT
    mature = real & (ages > maturity)
    num_mature = tl.sum(mature.to(tl.int32), axis=0).to(tl.float64)
    funds = tl.load(budget) + num_mature * tl.full([], RATE, tl.float64)
    tl.debug_barrier()  # every thread has read the budget before one of them pays
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
def renew_kernel(parts: tl.tuple, BLOCK: tl.constexpr) -> None:
    """Write the entries of the units that are due, and clear what Adam remembers of them: a program a block of a unit.

    A part is a tensor's: itself, Adam's three moments and how many there are; births, step, and whether births
    count; units, due; new values, their places, and whether there are values (1), places of values (2) or neither (0),
    then the value; entries of a unit, of a row, of a column in a row; its first program and the one after its last,
    programs a unit; the units' dimension. A tensor that there is not is another one: Triton 3.6 fails at None.
    The first and last programs follow from how many units there are. They are floats, because Triton compiles once
    more for an integer in a tuple that is 1 or a multiple of 16.
    """
    for part in tl.static_range(len(parts)):
        if (tl.program_id(0) >= parts[part][17]) & (tl.program_id(0) < parts[part][18]):
            renew_block((tl.program_id(0) - parts[part][17]).to(tl.int32), parts[part], BLOCK)


@triton.jit
def renew_block(program: tl.tensor, part: tl.tuple, BLOCK: tl.constexpr) -> None:
    parameter, mean, square, largest, num_moments, born, step, is_counted, units, due = part[:10]
    values, places, kind, value, length, width, inner, _, _, blocks, along = part[10:]
    slot = program // blocks
    if tl.load(due + slot):
        unit = tl.load(units + slot)
        at = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
        entry = unit * length + at
        if along == 1:
            entry = (at // inner).to(tl.int64) * width + unit * inner + at % inner
        inside = at < length
        zeros = tl.zeros([BLOCK], tl.float32)
        new = zeros + value
        if kind == 1:
            new = tl.load(values + slot * length + at, mask=inside, other=0.0)
        if kind == 2:
            place = tl.load(places + slot * length + at, mask=inside, other=0)
            new = tl.load(values + place, mask=inside, other=0.0)
        tl.store(parameter + entry, new, mask=inside)
        if num_moments > 0:
            tl.store(mean + entry, zeros, mask=inside)
            tl.store(square + entry, zeros, mask=inside)
        if num_moments > 2:
            tl.store(largest + entry, zeros, mask=inside)
        if is_counted:
            tl.store(born + unit, tl.load(step))


@triton.jit
def scales(age: tl.tensor, lr: tl.tensor, LOG_1: tl.constexpr, LOG_2: tl.constexpr, EPS: tl.constexpr) -> tl.tuple:
    """The rate and epsilon of an age, as methods/renewal.py has them."""
    first = 1.0 - tl.exp2(age.to(tl.float64) * tl.full([], LOG_1, tl.float64))
    root = tl.sqrt(1.0 - tl.exp2(age.to(tl.float64) * tl.full([], LOG_2, tl.float64)))
    return (lr * root / first).to(tl.float32), (root * tl.full([], EPS, tl.float64)).to(tl.float32)


@triton.jit
def ages_kernel(
    lines: tl.tuple,
    table: tl.tensor,
    length: tl.tensor,
    lr: tl.tensor,  # a number, or a tensor that holds it
    IS_TENSOR: tl.constexpr,
    LOG_1: tl.constexpr,
    LOG_2: tl.constexpr,
    EPS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Put the age, the rate and the epsilon of each index along a dimension into the three rows of the table.

    A line is a dimension's: births, the tensor's step and last step, how many indices, and where it is in the table.
    Behind its last index is what a unit has that was never renewed. Births after the present step are forgotten.
    """
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    for line in tl.static_range(len(lines)):
        if tl.program_id(0) == line:
            born, step, last_step, num_indices, start = lines[line]
            now = tl.load(step)
            births = tl.load(born + at, mask=at < num_indices, other=0.0)
            births = tl.where(births > now, 0.0, births)
            tl.store(born + at, births, mask=at < num_indices)
            is_stepped = tl.zeros_like(births) + tl.load(last_step) != now  # not if it had no gradient
            age = tl.where(is_stepped & (births < now), now - births, now)
            rate, epsilon = scales(age, tl.load(lr) if IS_TENSOR else lr, LOG_1, LOG_2, EPS)
            inside = at <= num_indices
            tl.store(table + start + at, age, mask=inside)
            tl.store(table + length + start + at, rate, mask=inside)
            tl.store(table + 2 * length + start + at, epsilon, mask=inside)


@triton.jit
def own_steps_kernel(
    parts: tl.tuple, table: tl.tensor, length: tl.tensor, ROWS: tl.constexpr, COLUMNS: tl.constexpr
) -> None:
    """Give young entries the update of their own age in place of the one of the tensor's age: a program a tile.

    A part is a tensor's: itself, its two moments, step, last step; rows, entries of a row, entries of a column in a
    row; where the ages of rows and columns are in the table, and how far apart (0: there is but one); where the
    tensor's own age is; its first tile and the one after its last, tiles across.
    """
    for part in tl.static_range(len(parts)):
        if (tl.program_id(0) >= parts[part][13]) & (tl.program_id(0) < parts[part][14]):
            take_own_steps(tl.program_id(0) - parts[part][13], parts[part], table, length, ROWS, COLUMNS)


@triton.jit
def younger(
    numbers: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    in_rows: tl.tensor,
    in_columns: tl.tensor,
    by_column: tl.tensor,
) -> tl.tensor:
    """The numbers of the rows or of the columns, entry by entry."""
    of_rows = tl.load(numbers + rows, mask=in_rows, other=0.0)
    of_columns = tl.load(numbers + columns, mask=in_columns, other=0.0)
    return tl.where(by_column, of_columns[None, :], of_rows[:, None])


@triton.jit
def take_own_steps(
    tile: tl.tensor,
    part: tl.tuple,
    table: tl.tensor,
    length: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    parameter, mean, square, step, last_step, num_rows, width, inner = part[:8]
    rows_at, rows_apart, columns_at, columns_apart, own_at, _, _, tiles_across = part[8:]
    if tile == 0:
        tl.store(last_step, tl.load(step))
    row = (tile // tiles_across) * ROWS + tl.arange(0, ROWS)
    across = (tile % tiles_across) * COLUMNS + tl.arange(0, COLUMNS)
    in_rows, in_columns = row < num_rows, across < width
    rows, columns = rows_at + row * rows_apart, columns_at + (across // inner) * columns_apart
    row_age = tl.load(table + rows, mask=in_rows, other=0.0)
    column_age = tl.load(table + columns, mask=in_columns, other=0.0)
    by_column = column_age[None, :] <= row_age[:, None]  # an entry is as old as the younger of its units
    rate = younger(table + length, rows, columns, in_rows, in_columns, by_column)
    epsilon = younger(table + 2 * length, rows, columns, in_rows, in_columns, by_column)
    tensors_rate, tensors_epsilon = tl.load(table + length + own_at), tl.load(table + 2 * length + own_at)
    # Of those that differ alone the two updates do.
    young = in_rows[:, None] & in_columns[None, :] & ((rate != tensors_rate) | (epsilon != tensors_epsilon))
    if tl.max(tl.max(young.to(tl.int32), axis=1), axis=0) > 0:
        entry = row[:, None].to(tl.int64) * width + across[None, :]
        m = tl.load(mean + entry, mask=young, other=0.0)
        root = tl.sqrt_rn(tl.load(square + entry, mask=young, other=0.0))
        update = tl.div_rn(m * rate, root + epsilon) - tl.div_rn(m * tensors_rate, root + tensors_epsilon)
        tl.store(parameter + entry, tl.load(parameter + entry, mask=young) - update, mask=young)
