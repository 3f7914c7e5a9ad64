"""The sampler on the CPU, compiled by Numba: all rows of a step in one call, without Python's lock.

A call of NumPy's or torch's takes a microsecond or two, and ten times as long when a model's weights have just been
through the caches, for each runs code of its own. Here a row is a few loops over contiguous memory, most of which
become vector instructions:

- `_gather` picks the logits of the allowed tokens, if these are in few of the mask's words. Otherwise `_mask` copies
  the row, with -inf for what is forbidden. A row that nothing changes is read where it is.
- `_largest_of` finds the largest logit, or that there is a NaN, by the integers that order floats.
- `_weigh` is exp, by the polynomial of the Cephes library (Moshier, 1989): to a part in a million of each weight.
- `_top_k_bar` and `_top_p_bar` find the largest logit that enough tokens, or enough of the weight, reach, exactly, by
  bisection over the integers that order floats. A pass over them is quicker than anything that sorts.
- `_draw` is the inverse CDF: the block of 1,024 weights by sums in float64, and then the token inside it.

What a row comes to depends on nothing but the row, so it is the same in every batch, to the last bit.
"""

from functools import partial

import numpy as np
from numba import carray, config, njit, types
from numba.extending import intrinsic

from engine_adapter.sampling.batch import SETTINGS
from engine_adapter.sampling.sampled import SAMPLED_ROW, RowFlag

if config.DISABLE_JIT:
    raise ImportError("Numba compiles nothing while NUMBA_DISABLE_JIT is set")

BLOCK = 1024
"""Weights summed at once in the inverse CDF."""

SPARSE = 4
"""Rows with bits in less than one word in so many are gathered: of at most a quarter of the tokens."""

OK = int(RowFlag.OK)
EMPTY_MASK = int(RowFlag.EMPTY_MASK)
NAN = int(RowFlag.NAN)
POSITIVE_INF = int(RowFlag.POSITIVE_INF)
NOTHING_FINITE = int(RowFlag.NOTHING_FINITE)

INF = np.float32(np.inf)
NAN_ITSELF = np.float32(np.nan)
HIGHEST_KEY = np.int32(0x7F800000)  # of +inf; only NaN is beyond
LOWEST_KEY = np.int32(-0x7F800001)  # of -inf

# Division as in NumPy: Python's, which raises, keeps a loop from being vectorized.
kernel = partial(njit, error_model="numpy")


@kernel
def _key(bits):
    """The int32 that orders floats, of a float's bits; and back."""
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@kernel
def _key_of(value):
    return _key(np.float32(value).view(np.int32))


@kernel
def _float_of(key):
    return np.int32(_key(np.int32(key))).view(np.float32)


@kernel
def _largest_of(values):
    """The largest of float32 [n], n > 0; NaN if any is."""
    bits = values.view(np.int32)
    lowest = highest = _key(bits[0])
    for at in range(len(bits)):
        key = _key(bits[at])
        lowest = key if key < lowest else lowest
        highest = key if key > highest else highest
    if lowest < LOWEST_KEY or highest > HIGHEST_KEY:
        return NAN_ITSELF
    return _float_of(highest)


@kernel
def _first(values, value):
    """The first index of the largest value."""
    start, found = -BLOCK, 0
    while found == 0:  # block by block, for a loop that may end early does not become vector instructions
        start += BLOCK
        found = _count_from(values[start : start + BLOCK], value)
    at = start
    while values[at] != value:
        at += 1
    return at


@kernel
def _filled(array, value):
    """The array, with the value everywhere."""
    for at in range(len(array)):
        array[at] = value
    return array


@kernel
def _copied(values, target):
    for at in range(len(values)):
        target[at] = values[at]
    return target


@kernel
def _place(tokens, token):
    """The index of the first of ascending tokens that is not less."""
    low, high = 0, len(tokens)
    while low < high:
        middle = (low + high) // 2
        if tokens[middle] < token:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _words_in_use(words, vocabulary):
    """How many of a mask's words have a bit for a token of the vocabulary; and the last word that may have, without the
    bits that are for none."""
    width = min(len(words), (vocabulary + 31) // 32)
    if width == 0:
        return 0, np.int32(0)
    last = words[width - 1]
    if 32 * width > vocabulary:
        last &= np.int32((1 << (vocabulary & 31)) - 1)
    used = np.int32(last != 0)
    for at in range(width - 1):
        used += np.int32(words[at] != 0)
    return used, last


@kernel
def _gather(logits, words, last, values, tokens):
    """The tokens that are allowed, in order, and their logits. Returns how many there are."""
    width = min(len(words), (len(logits) + 31) // 32)
    count = 0
    for at in range(width):
        word = np.uint32(last if at == width - 1 else words[at])
        token = 32 * at
        while word:
            if word & np.uint32(1):
                tokens[count] = token
                values[count] = logits[token]
                count += 1
            word >>= np.uint32(1)
            token += 1
    return count


@kernel
def _mask(logits, words, last, values):
    """The logits, and -inf for what is forbidden."""
    width = min(len(words), len(logits) // 32)
    for at in range(width):
        word = words[at]
        for bit in range(32):
            token = 32 * at + bit
            values[token] = logits[token] if word >> np.int32(bit) & np.int32(1) else -INF
    for token in range(32 * width, len(logits)):
        is_allowed = width < len(words) and last >> np.int32(token & 31) & np.int32(1)
        values[token] = logits[token] if is_allowed else -INF


@kernel(fastmath={"contract"})
def _weigh(values, best, temperature, weights):
    """exp((values - best) / temperature), none above 1; those below the least normal float are 0."""
    for at in range(len(values)):
        x = (values[at] - best) / temperature
        clipped = x if x > np.float32(-87.0) else np.float32(-87.0)
        power = np.floor(clipped * np.float32(1.44269504088896341) + np.float32(0.5))
        rest = clipped - power * np.float32(0.693359375) + power * np.float32(2.12194440e-4)
        series = np.float32(1.9875691500e-4)
        series = series * rest + np.float32(1.3981999507e-3)
        series = series * rest + np.float32(8.3334519073e-3)
        series = series * rest + np.float32(4.1665795894e-2)
        series = series * rest + np.float32(1.6666665459e-1)
        series = series * rest + np.float32(5.0000001201e-1)
        series = series * rest * rest + rest + np.float32(1.0)
        scale = np.int32((np.int32(power) + np.int32(127)) << np.int32(23)).view(np.float32)
        weights[at] = series * scale if x >= np.float32(-87.0) else np.float32(0.0)


@kernel(fastmath={"reassoc", "nsz"})
def _sum(weights):
    """Of float32 [n], in float64. In the order that vectors have it, which is the same each time."""
    total = 0.0
    for at in range(len(weights)):
        total += weights[at]
    return total


@kernel
def _sum_blocks(weights, sums):
    """Of each block. Returns the sum of all."""
    total = 0.0
    for block in range(len(sums)):
        sums[block] = _sum(weights[block * BLOCK : (block + 1) * BLOCK])
        total += sums[block]
    return total


@kernel
def _draw(weights, sums, target):
    """The first index at which the cumulative weight exceeds ``target``, the last with a weight where rounding has
    carried that to the end. ``sums`` are those of the blocks, some of them above 0."""
    block, before, after = 0, 0.0, 0.0
    for at in range(len(sums)):
        if sums[at] > 0.0:
            block, before = at, after
            after += sums[at]
            if after > target:
                break
    chosen = 0
    for at in range(block * BLOCK, min((block + 1) * BLOCK, len(weights))):
        if weights[at] > 0.0:
            chosen = at
            before += weights[at]
            if before > target:
                break
    return chosen


@kernel
def _count_from(values, bar):
    """How many of the values are at least ``bar``."""
    count = 0
    for at in range(len(values)):
        count += values[at] >= bar
    return count


@kernel
def _top_k_bar(values, best, count):
    """A bar that the ``count`` largest values reach, and no others but those equal to them; -inf if there are fewer."""
    low, high = np.int64(LOWEST_KEY), np.int64(_key_of(best)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        reaching = _count_from(values, _float_of(middle))
        if reaching >= count:
            low = middle
        else:
            high = middle
        if reaching == count:
            break
    return _float_of(low)


@kernel(fastmath={"reassoc", "nsz"})
def _weight_from(values, weights, bar):
    """What the values weigh that are at least ``bar``, in float64."""
    total = 0.0
    for at in range(len(values)):
        total += weights[at] if values[at] >= bar else np.float32(0.0)
    return total


@kernel
def _top_p_bar(values, weights, best, total, top_p):
    """The value of the token with which the weight, most likely first, reaches ``top_p`` of the whole."""
    # Tokens that weigh less than (1 - top_p) of the mean weigh together less than what is cut off: they come behind.
    floor = (1.0 - top_p) * total / len(values)
    candidates, their_weights = np.empty(len(values), np.float32), np.empty(len(values), np.float32)
    found = 0
    for at in range(len(values)):
        candidates[found], their_weights[found] = values[at], weights[at]
        found += weights[at] >= floor
    low, high = np.int64(LOWEST_KEY), np.int64(_key_of(best)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _weight_from(candidates[:found], their_weights[:found], _float_of(middle)) >= top_p * total:
            low = middle
        else:
            high = middle
    return _float_of(low)


@kernel
def _report(values, tokens, best, temperature, total, top_tokens, top_logprobs):
    """Writes down the most likely tokens, as many as there is room for, most likely first and equals by id, with their
    log-probabilities. -inf is none of them."""
    count = len(top_tokens)
    bar = _top_k_bar(values, best, count)
    equals = count  # that there is room for, less those above the bar
    for value in values:
        equals -= value > bar
    found = 0
    for at in range(len(values)):
        value = values[at]
        if value < bar or value == -INF or (value == bar and equals == 0):
            continue
        equals -= value == bar
        place = found
        while place > 0 and top_logprobs[place - 1] < value:
            top_tokens[place], top_logprobs[place] = top_tokens[place - 1], top_logprobs[place - 1]
            place -= 1
        top_tokens[place], top_logprobs[place] = tokens[at] if len(tokens) else at, value
        found += 1
    for at in range(found):
        top_logprobs[at] = _logprob(top_logprobs[at], best, temperature, total)


@kernel
def _logprob(value, best, temperature, total):
    return np.float32((np.float64(value) - best) / temperature - np.log(total))


@kernel
def _allowed(logits, words, masked, gathered):
    """The logits of the allowed tokens, and which these are; none if none is allowed. Without their names it is the
    whole row, with -inf for the others. Both in the memory given."""
    vocabulary = len(logits)
    used, last = _words_in_use(words, vocabulary)
    if used == 0:
        return masked[:0], gathered[:0]
    if SPARSE * used < (vocabulary + 31) // 32:
        count = _gather(logits, words, last, masked, gathered)
        return masked[:count], gathered[:count]
    _mask(logits, words, last, masked)
    return masked, gathered[:0]


@kernel
def _change(values, tokens, changes):
    """Bias and penalties, in place; on what is not there they have no effect."""
    is_gathered = len(tokens) > 0
    for at in range(len(changes)):
        change = changes[at]
        place = _place(tokens, change.token) if is_gathered else change.token
        if 0 <= place < len(values) and (not is_gathered or tokens[place] == change.token):
            biased = values[place] + change.bias
            values[place] = (biased / change.repetition if biased > 0 else biased * change.repetition) - change.penalty


@kernel
def _flag(best):
    """Of a row whose largest logit is ``best``."""
    if best != best:
        return NAN
    if best == INF:
        return POSITIVE_INF
    return NOTHING_FINITE if best == -INF else OK


@kernel
def _choose(values, best, weights, sums, top_k, top_p, min_p, uniform):
    """The index of the choice. ``weights`` are those of ``values``, and what is cut off is set to 0."""
    bar, least = -INF, np.float32(min_p)
    if 0 < top_k < len(values):
        bar = _top_k_bar(values, best, top_k)
        _cut(values, weights, bar, np.float32(0.0))
    if top_p < 1.0:
        bar = max(bar, _top_p_bar(values, weights, best, _sum_blocks(weights, sums), top_p))
    if top_p < 1.0 or least > 0.0:
        _cut(values, weights, bar, least)
    total = _sum_blocks(weights, sums)
    return _draw(weights, sums, uniform * total)


@kernel
def _cut(values, weights, bar, least):
    for at in range(len(values)):
        weights[at] = weights[at] if values[at] >= bar and weights[at] >= least else np.float32(0.0)


CHANGE = np.dtype(
    [("token", np.int64), ("bias", np.float32), ("repetition", np.float32), ("penalty", np.float32)], align=True
)
"""One token of `LogitChanges`."""


@intrinsic
def _pointer(_context, address):
    def to_pointer(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(address), to_pointer


@kernel
def _at(address, shape, dtype):
    """The array whose memory begins there."""
    return carray(_pointer(address), shape, dtype)


_SIGNATURE = types.boolean(types.Array(types.int32, 2, "C", readonly=True), *[types.int64] * 13)


def _compiled(function):
    """Compiled now, which takes seconds; kept on the disk for the next process, if anything can be."""
    try:
        return kernel(_SIGNATURE, nogil=True, cache=True)(function)
    except Exception:  # such as a file of it that was cut short
        return kernel(_SIGNATURE, nogil=True)(function)


@_compiled
def sample_rows(
    masks,
    count,
    vocabulary,
    logits_at,
    row_map_at,
    settings_at,
    uniforms_at,
    changed,
    ends_at,
    changes_at,
    out_at,
    alternatives,
    top_tokens_at,
    top_logprobs_at,
):
    """Writes a step's results; see `engine_adapter.sampling.sampler.sample`.

    Most arrays are handed over as the addresses of their memory: to make NumPy's arrays of them, and to take these
    apart again, costs more than to sample a row. All are contiguous.

    Args:
        masks: int32 [rows, words].
        count: n, how many rows of logits there are.
        vocabulary: V, how many logits a row has; more than 0.
        logits_at: float32 [n, V].
        row_map_at: int64 [n], each -1 or a row of ``masks``.
        settings_at: `SETTINGS` [n].
        uniforms_at: float64 [n].
        changed: n if there are changes, else 0.
        ends_at: int64 [changed]: where each row's part of the changes ends, and the next row's begins.
        changes_at: `CHANGE` of all rows, one row's behind the other's.
        out_at: `SAMPLED_ROW` [n].
        alternatives: k, the largest of the ``logprobs``, or 0.
        top_tokens_at, top_logprobs_at: int64 and float32 [n, k].

    Returns:
        False, and nothing is done, if the row map leaves the masks.
    """
    row_map = _at(row_map_at, count, np.int64)
    for row in row_map:
        if row < -1 or row >= len(masks):
            return False
    logits = _at(logits_at, (count, vocabulary), np.float32)
    settings, uniforms = _at(settings_at, count, SETTINGS), _at(uniforms_at, count, np.float64)
    ends = _at(ends_at, changed, np.int64)
    changes = _at(changes_at, ends[-1] if changed else 0, CHANGE)
    out = _at(out_at, count, SAMPLED_ROW)
    top_tokens = _at(top_tokens_at, (count, alternatives), np.int64)
    top_logprobs = _at(top_logprobs_at, (count, alternatives), np.float32)
    # Room for one row.
    memory = np.empty(2 * vocabulary, np.float32)
    masked, weights_room = memory[:vocabulary], memory[vocabulary:]
    gathered = np.empty(vocabulary // SPARSE + 32, np.int64)
    sums_room = np.empty((vocabulary + BLOCK - 1) // BLOCK, np.float64)
    for row in range(count):
        out[row].token, out[row].logprob, out[row].flag = -1, NAN_ITSELF, OK
        if alternatives:
            _filled(top_tokens[row], -1)
            _filled(top_logprobs[row], -INF)
        if row_map[row] >= 0:
            values, tokens = _allowed(logits[row], masks[row_map[row]], masked, gathered)
            if len(values) == 0:
                out[row].flag = EMPTY_MASK
                continue
        else:
            values, tokens = logits[row], gathered[:0]
        if changed:
            begin, end = ends[row - 1] if row else 0, ends[row]
            if row_map[row] < 0 and begin < end:
                values = _copied(values, masked)
            _change(values, tokens, changes[begin:end])
        best = _largest_of(values)
        out[row].flag = _flag(best)
        if out[row].flag != OK:
            continue
        asked = settings[row]
        is_greedy = asked.temperature == 0.0
        tempered = np.float32(1.0) if is_greedy else asked.temperature
        weights, sums = weights_room[: len(values)], sums_room[: (len(values) + BLOCK - 1) // BLOCK]
        total = 0.0
        if not is_greedy or asked.logprobs >= 0:
            _weigh(values, best, tempered, weights)
        if asked.logprobs >= 0:
            total = _sum_blocks(weights, sums)
        if asked.logprobs > 0:
            top = top_tokens[row, : asked.logprobs], top_logprobs[row, : asked.logprobs]
            _report(values, tokens, best, tempered, total, top[0], top[1])
        if is_greedy:
            at = _first(values, best)
        else:
            at = _choose(
                values,
                best,
                weights,
                sums,
                asked.top_k,
                asked.top_p,
                asked.min_p,
                uniforms[row],
            )
        out[row].token = tokens[at] if len(tokens) else at
        if asked.logprobs >= 0:
            out[row].logprob = _logprob(values[at], best, tempered, total)
    return True
