"""The sampler's kernels in Triton: one pass over the logits, in which the mask decides what is read at all.

Rows are cut into blocks of 1,024 tokens, whatever the batch and the grid, and what is known of a block is found in one
way only. So a row has the same token and the same log-probability, to the last bit, in every batch, row and split.

`survey` does all of a step but for what `truncate` does. Its grid is (rows, splits); a program takes every splits-th
block. It loads the block's 32 mask words, then those groups of 32 logits of which a token is allowed, and writes down
the block's maximum, where that is first, the sum of its weights, and how many tokens are allowed. The program that
comes last to a row puts these together, in the order of the blocks, and chooses:

- greedy: the first of the largest;
- a draw: the block in which the cumulative weight exceeds the draw's share, then the token inside it, which reads that
  one block again. It takes the request's own uniform number, as the sampler does on the host. Gumbel noise on each
  block's weight would be as exact and as cheap, but give other tokens than the host for the same seed;
- top-k, top-p, min-p where at most `CANDIDATES` tokens are allowed: programs have put these aside, in the order in
  which they came; sorted, that order is forgotten.

`truncate` does the rest, rows that allow more and ask for top-k, top-p or min-p, one program a row. The others'
programs end at once. The thresholds are found exactly, as the largest logit that enough tokens, or enough of the
weight, reach: by a search with eight pivots a pass over the integers that order floats. Bounds known from the survey
leave few of these: two or three passes in bfloat16.

Nothing is allocated, and nothing depends on the host: parameters, masks and map may change between the replays of a
CUDA graph. The counters are zero again after each launch.

The last program reads what others wrote: each has a barrier after its writes, then adds to the row's counter with
acquire and release.

`forbid` is for logits that others sample from: it only writes.
"""

import triton
import triton.language as tl

from engine_adapter.sampling.sampled import RowFlag

BLOCK = tl.constexpr(1024)
"""Tokens of a block."""

CANDIDATES = tl.constexpr(1024)
"""Most allowed tokens of a row that is truncated in the first pass."""

SETTINGS = tl.constexpr(8)
"""Columns of ``params``, float64: the next eight."""

SCALE = tl.constexpr(0)  # log2(e) / temperature: weights are powers of two; log2(e) for greedy rows
KIND = tl.constexpr(1)  # GREEDY, DRAW or TRUNCATED
TOP_K = tl.constexpr(2)  # 0: off
TOP_P = tl.constexpr(3)  # 1: off
MIN_P = tl.constexpr(4)  # 0: off
UNIFORM = tl.constexpr(5)
MASK_ROW = tl.constexpr(6)  # -1: every token is allowed
LOGPROB = tl.constexpr(7)  # below 0: not wanted

GREEDY = tl.constexpr(0)
DRAW = tl.constexpr(1)
TRUNCATED = tl.constexpr(2)

MASKED = tl.constexpr(4096)
"""Tokens of a block of `forbid`."""

FEW = tl.constexpr(64)
"""So few are sorted faster."""

_PIVOTS = tl.constexpr(8)
_NANS = tl.constexpr(1 << 16)  # counts above a count of tokens
_LN2 = tl.constexpr(0.6931471805599453)

_OK = tl.constexpr(int(RowFlag.OK))
_EMPTY_MASK = tl.constexpr(int(RowFlag.EMPTY_MASK))
_NAN = tl.constexpr(int(RowFlag.NAN))
_POSITIVE_INF = tl.constexpr(int(RowFlag.POSITIVE_INF))
_NOTHING_FINITE = tl.constexpr(int(RowFlag.NOTHING_FINITE))


@triton.jit(do_not_specialize=["logits_stride"], do_not_specialize_on_alignment=["logits"])
def survey(
    logits,  # [rows, size], float32, bfloat16 or float16
    mask,  # int32 [mask rows, width]
    params,  # float64 [rows, SETTINGS]
    block_max,  # float32 [rows, blocks]: scratch
    block_sum,  # float32 [rows, blocks]: scratch
    block_first,  # int32 [rows, blocks]: scratch
    block_count,  # int32 [rows, blocks]: scratch; below 0 where an allowed token is NaN
    candidates,  # int64 [rows, CANDIDATES]: scratch
    slots,  # int32 [rows]: how many candidates were put aside; 0 before and after
    arrivals,  # int32 [rows]: how many programs are through; 0 before and after
    tokens,  # int64 [rows]: out
    flags,  # uint8 [rows]: out
    logprobs,  # float32 [rows]: out
    pending,  # int32 [rows]: out, 1 where `truncate` has to choose
    logits_stride,
    mask_stride,
    size,
    width,
    blocks,
    PADDED: tl.constexpr,  # blocks, rounded up to a power of two
    ALIGNED: tl.constexpr,  # whether all rows of logits begin at a multiple of 16 bytes
    UNIT: tl.constexpr,  # a power of two that divides size
    TRUNCATES: tl.constexpr,  # whether a row's kind may be TRUNCATED
):
    """Chooses a token for each row, or says why there is none, or leaves the row to `truncate`."""
    row = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    splits = tl.num_programs(1)
    settings = params + row * SETTINGS
    scale = tl.load(settings + SCALE).to(tl.float32)
    kind = tl.load(settings + KIND).to(tl.int32)
    logits_row = _row(logits, row, logits_stride, ALIGNED)
    mask_row = tl.load(settings + MASK_ROW).to(tl.int64)
    bits = (mask + mask_row * mask_stride, tl.where(mask_row >= 0, width, -1))
    size = size // UNIT * UNIT  # the same, but now the compiler knows
    wants_sum = (kind != GREEDY) | (tl.load(settings + LOGPROB) >= 0)
    # What the next block needs is under way while this one is computed: its logits, and the words of the one behind it.
    words, next_words = _words(bits, split), _words(bits, split + splits)
    loaded = _load(logits_row, words, split, size)
    for block in range(split, blocks, splits):
        last_words = _words(bits, block + 2 * splits)
        next_loaded = _load(logits_row, next_words, block + splits, size)
        at = row * blocks + block
        x, allowed = _masked(loaded, words, block, size)
        counts = tl.sum(allowed.to(tl.int32) + (allowed & (x != x)).to(tl.int32) * _NANS)
        count = counts % _NANS
        largest, weight, first = float("-inf"), 0.0, size
        if counts > 0:
            x = tl.where(x == x, x, float("-inf"))
            largest = tl.max(x)
            if wants_sum:
                weight = tl.sum(_weights(x, tl.where(largest == float("-inf"), 0.0, largest), scale))
            if kind == GREEDY:
                first = tl.min(tl.where(x == largest, _ids(block), size))
            if TRUNCATES and kind == TRUNCATED:
                _put_aside(candidates + row * CANDIDATES, slots + row, x, allowed, block, count)
        tl.store(block_max + at, largest)
        tl.store(block_sum + at, weight)
        tl.store(block_first + at, first)
        tl.store(block_count + at, tl.where(counts == count, count, -count))
        words, next_words, loaded = next_words, last_words, next_loaded
    tl.debug_barrier()
    if tl.atomic_add(arrivals + row, 1, sem="acq_rel") == splits - 1:
        tl.store(arrivals + row, 0)
        tl.store(slots + row, 0)
        index = tl.arange(0, PADDED)
        at = row * blocks + index
        maxima = tl.load(block_max + at, mask=index < blocks, other=float("-inf"), cache_modifier=".cg")
        sums = tl.load(block_sum + at, mask=index < blocks, other=0.0, cache_modifier=".cg")
        counts = tl.load(block_count + at, mask=index < blocks, other=0, cache_modifier=".cg")
        best = tl.max(maxima)
        count = tl.sum(tl.abs(counts))
        flag = _flag(best, count, tl.min(counts) < 0)
        weights = _block_weights(maxima, sums, best, scale)
        total = tl.sum(weights)
        logprob = float("nan")
        uniform = tl.load(settings + UNIFORM)
        aside = candidates + row * CANDIDATES
        token = tl.full([], 0, tl.int32)
        left = tl.full([], 0, tl.int32)
        if flag == _OK:
            if kind == GREEDY:
                firsts = tl.load(block_first + at, mask=index < blocks, other=0, cache_modifier=".cg")
                token = tl.min(tl.where(maxima == best, firsts, size)).to(tl.int32)
            elif kind == DRAW:
                block, rest = _locate(weights, uniform * total)
                largest = tl.max(tl.where(index == block, maxima, float("-inf")))
                rest /= tl.exp2((largest - best) * scale).to(tl.float64)
                token = _drawn(logits_row, bits, block, size, rest, largest, scale)
            elif TRUNCATES:
                if count <= FEW:
                    token = _choose(aside, settings, count, best, scale, uniform, FEW)
                elif count <= CANDIDATES:
                    token = _choose(aside, settings, count, best, scale, uniform, CANDIDATES)
                else:
                    left += 1
        tl.store(pending + row, left)
        tl.store(flags + row, flag.to(tl.uint8))
        tl.store(tokens + row, tl.where(flag == _OK, token, -1).to(tl.int64))
        if (flag == _OK) & (tl.load(settings + LOGPROB) >= 0):
            logprob = _logprob(logits_row, token, best, total, scale)
        tl.store(logprobs + row, logprob)


@triton.jit(do_not_specialize=["logits_stride"], do_not_specialize_on_alignment=["logits"])
def truncate(
    logits,
    mask,
    params,
    block_max,
    block_sum,
    block_count,
    tokens,
    logprobs,
    pending,
    logits_stride,
    mask_stride,
    size,
    width,
    blocks,
    PADDED: tl.constexpr,
    ALIGNED: tl.constexpr,
    UNIT: tl.constexpr,
    SHIFT: tl.constexpr,  # low bits of a float32 in which values of the logits' type never differ
):
    """Chooses for the rows that `survey` has left; the arguments as there."""
    row = tl.program_id(0).to(tl.int64)
    if tl.load(pending + row) != 0:
        settings = params + row * SETTINGS
        scale = tl.load(settings + SCALE).to(tl.float32)
        top_k = tl.load(settings + TOP_K).to(tl.int32)
        top_p = tl.load(settings + TOP_P)
        min_p = tl.load(settings + MIN_P).to(tl.float32)
        mask_row = tl.load(settings + MASK_ROW).to(tl.int64)
        bits = (mask + mask_row * mask_stride, tl.where(mask_row >= 0, width, -1))
        logits_row = _row(logits, row, logits_stride, ALIGNED)
        maxima_row = block_max + row * blocks
        index = tl.arange(0, PADDED)
        maxima = tl.load(maxima_row + index, mask=index < blocks, other=float("-inf"))
        sums = tl.load(block_sum + row * blocks + index, mask=index < blocks, other=0.0)
        count = tl.sum(tl.load(block_count + row * blocks + index, mask=index < blocks, other=0))
        best = tl.max(maxima)
        total = tl.sum(_block_weights(maxima, sums, best, scale))
        size = size // UNIT * UNIT
        here = (logits_row, bits, maxima_row, size, blocks, best, scale)

        whole = total
        bar = _key(tl.full([], float("-inf"), tl.float32), SHIFT).to(tl.int64)
        end = _key(best, SHIFT).to(tl.int64) + 1
        if (top_k > 0) & (top_k < count):
            if top_k <= blocks:  # as many blocks have a maximum that is as large as this
                ranked = tl.sort(maxima, descending=True)
                bar = _key(tl.max(tl.where(index == top_k - 1, ranked, float("-inf"))), SHIFT).to(tl.int64)
            bar = _search(here, bar, end, top_k.to(tl.float64), False, SHIFT)
            if top_p < 1.0:
                pivots = tl.zeros([_PIVOTS], tl.int32) + bar.to(tl.int32)
                whole = tl.max(_reached(here, pivots, True, SHIFT))
        elif top_p < 1.0:
            # Tokens that weigh no more than (1 - top_p) of the mean weigh together at most what is cut off; half of
            # that leaves room for rounding.
            share = tl.log2((0.5 * (1.0 - top_p) * total / count).to(tl.float32))
            bar = tl.minimum(_key(best + share / scale, SHIFT).to(tl.int64), end - 1)
        if top_p < 1.0:
            bar = _search(here, bar, end, top_p * whole, True, SHIFT)

        weights = tl.zeros([PADDED], tl.float32)
        for block in range(blocks):
            if _key(tl.load(maxima_row + block), SHIFT) >= bar:
                kept = _kept(_block(logits_row, bits, block, size), bar, min_p, best, scale, SHIFT)
                weights = tl.where(index == block, tl.sum(kept), weights)
        weights = weights.to(tl.float64)
        block, rest = _locate(weights, tl.load(settings + UNIFORM) * tl.sum(weights))
        weights = _kept(_block(logits_row, bits, block, size), bar, min_p, best, scale, SHIFT)
        word, rest = _locate(tl.sum(weights.to(tl.float64), axis=1), rest)
        word += block * 32
        weights = _kept(_word(logits_row, bits, word, size), bar, min_p, best, scale, SHIFT)
        found, _ = _locate(weights.to(tl.float64), rest)
        token = word * 32 + found
        tl.store(tokens + row, token.to(tl.int64))
        if tl.load(settings + LOGPROB) >= 0:
            tl.store(logprobs + row, _logprob(logits_row, token, best, total, scale))


@triton.jit(do_not_specialize=["logits_stride"])
def forbid(logits, words, targets, logits_stride, width, size):
    """Sets to -inf what one row of words forbids, of one block. The grid is (rows of words, blocks).

    Args:
        logits: floating point [rows, size], a row every ``logits_stride``.
        words: int32 [rows of words, width]; tokens behind the last word are forbidden.
        targets: int64, for each row of words its row of the logits.
    """
    row, block = tl.program_id(0), tl.program_id(1)
    at = block * (MASKED // 32) + tl.arange(0, MASKED // 32)
    here = tl.load(words + row.to(tl.int64) * width + at, mask=at < width, other=0)
    ids = at[:, None] * 32 + tl.arange(0, 32)[None, :]
    is_forbidden = ((here[:, None] >> tl.arange(0, 32)[None, :]) & 1) == 0
    start = logits + tl.load(targets + row) * logits_stride
    tl.store(start + ids, float("-inf"), mask=is_forbidden & (ids < size))


@triton.jit
def _row(logits, row, stride, ALIGNED: tl.constexpr):
    """Where a row begins. The compiler is told of its alignment by ``ALIGNED`` alone, so that the order in which a
    block is summed never depends on where a tensor happens to lie."""
    start = logits + row * stride
    if ALIGNED:
        start = tl.multiple_of(start, 16)
    return start


@triton.jit
def _ids(block):
    """int32 [32, 32]: the token ids of a block, a word in each row."""
    return block * BLOCK + tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]


@triton.jit
def _words(bits, block):
    """int32 [32]: the mask words of a block, 0 past the mask's end.

    ``bits`` is where the row's mask begins and how many words it has; -1 for a row that has none: all ones.
    """
    start, width = bits
    at = block * 32 + tl.arange(0, 32)
    return tl.where(width < 0, -1, tl.load(start + at, mask=at < width, other=0))


@triton.jit
def _load(logits_row, words, block, size):
    """[32, 32]: a block's logits as they are stored. Of words that allow no token nothing is read."""
    ids = _ids(block)
    is_read = tl.broadcast_to((words != 0)[:, None], [32, 32])
    return tl.load(logits_row + ids, mask=is_read & (ids < size), other=float("-inf"))


@triton.jit
def _masked(loaded, words, block, size):
    """float32 [32, 32]: the logits, -inf where the mask forbids; and bool [32, 32]: where it allows."""
    is_set = ((words[:, None] >> tl.arange(0, 32)[None, :]) & 1) != 0
    allowed = is_set & (_ids(block) < size)
    return tl.where(allowed, loaded.to(tl.float32), float("-inf")), allowed


@triton.jit
def _block(logits_row, bits, block, size):
    """float32 [32, 32]: a block's logits, -inf where the mask forbids."""
    words = _words(bits, block)
    x, _ = _masked(_load(logits_row, words, block, size), words, block, size)
    return x


@triton.jit
def _word(logits_row, bits, word, size):
    """float32 [32]: the logits of the tokens of one word, -inf where the mask forbids."""
    start, width = bits
    ids = word * 32 + tl.arange(0, 32)
    is_set = tl.where(width < 0, -1, tl.load(start + word, mask=word < width, other=0)) >> tl.arange(0, 32) & 1
    return tl.load(logits_row + ids, mask=(is_set != 0) & (ids < size), other=float("-inf")).to(tl.float32)


@triton.jit
def _weights(x, base, scale):
    """Powers of two: probabilities up to a factor, 1 where ``x`` is ``base``, which is finite."""
    return tl.exp2((x - base) * scale)


@triton.jit
def _block_weights(maxima, sums, best, scale):
    """float64 [PADDED]: what each block weighs, the best token of the row weighing 1."""
    return tl.where(sums > 0, sums * tl.exp2((maxima - best) * scale), 0.0).to(tl.float64)


@triton.jit
def _flag(best, count, is_nan):
    flag = tl.where(best == float("-inf"), _NOTHING_FINITE, _OK)
    flag = tl.where(best == float("inf"), _POSITIVE_INF, flag)
    flag = tl.where(is_nan, _NAN, flag)
    return tl.where(count == 0, _EMPTY_MASK, flag)


@triton.jit
def _locate(weights, target):
    """The first index at which the cumulative weight exceeds ``target``, and how far the target lies inside it.

    It always has a weight: rounding may carry the target past the end, or add up to more behind an index than at it.
    """
    index = tl.arange(0, weights.shape[0])
    cumulative = tl.cumsum(weights, 0)
    first = tl.min(tl.where((cumulative > target) & (weights > 0), index, weights.shape[0]))
    last = tl.max(tl.where(weights > 0, index, 0))
    found = tl.minimum(first, last)
    before = tl.sum(tl.where(index == found, cumulative - weights, 0.0))
    return found, tl.maximum(target - before, 0.0)


@triton.jit
def _drawn(logits_row, bits, block, size, rest, largest, scale):
    """The token inside of a block, whose largest logit weighs 1: word first, then inside it."""
    weights = _weights(_block(logits_row, bits, block, size), largest, scale)
    word, rest = _locate(tl.sum(weights.to(tl.float64), axis=1), rest)
    word += block * 32
    weights = _weights(_word(logits_row, bits, word, size), largest, scale)
    found, _ = _locate(weights.to(tl.float64), rest)
    return word * 32 + found


@triton.jit
def _logprob(logits_row, token, best, total, scale):
    """Of a token among those allowed, after temperature; ``total`` is what they weigh."""
    x = tl.load(logits_row + token).to(tl.float32)
    return (x - best) * scale * _LN2 - tl.log(total.to(tl.float32))


@triton.jit
def _order(x):
    """int32, ordered as the floats are; both zeros are one."""
    as_int = tl.where(x == 0, 0.0, x).to(tl.int32, bitcast=True)
    return tl.where(as_int < 0, as_int ^ 0x7FFFFFFF, as_int)


@triton.jit
def _key(x, SHIFT: tl.constexpr):
    """int32: `_order` without the low bits that follow from the others in all values of the logits' type."""
    return _order(x) >> SHIFT


@triton.jit
def _put_aside(candidates, slots, x, allowed, block, count):
    """Appends the allowed tokens of a block to the row's candidates, as long as there is room: logit and id in one."""
    slot = tl.atomic_add(slots, count, sem="relaxed")
    if slot < CANDIDATES:
        flat = tl.reshape(allowed, [BLOCK])
        at = slot + tl.cumsum(flat.to(tl.int32), 0) - 1
        ids = block * BLOCK + tl.arange(0, BLOCK)
        both = (_order(tl.reshape(x, [BLOCK])).to(tl.int64) << 32) | ids.to(tl.int64)
        tl.store(candidates + at, both, mask=flat & (at < CANDIDATES))


@triton.jit
def _choose(candidates, settings, count, best, scale, uniform, ROOM: tl.constexpr):
    """Top-k, top-p, min-p and the draw over a row's candidates, of which there are ``count``, at most ``ROOM``."""
    index = tl.arange(0, ROOM)
    inside = index < count
    both = tl.load(candidates + index, mask=inside, other=0, cache_modifier=".cg")
    both = tl.sort(tl.where(inside, both, -0x8000000000000000), descending=True)
    order = (both >> 32).to(tl.int32)
    x = tl.where(order < 0, order ^ 0x7FFFFFFF, order).to(tl.float32, bitcast=True)
    weights = tl.where(inside, _weights(tl.where(inside, x, float("-inf")), best, scale), 0.0)

    top_k = tl.load(settings + TOP_K).to(tl.int32)
    bar = tl.max(tl.where(index == top_k - 1, order, -0x80000000))  # the lowest of all where top-k is off
    weights = tl.where(order >= bar, weights, 0.0)
    top_p = tl.load(settings + TOP_P)
    mass = tl.cumsum(weights.to(tl.float64), 0)
    target = tl.where(top_p < 1.0, top_p * tl.max(mass), float("inf"))
    crossing = tl.min(tl.where(mass >= target, index, ROOM - 1))
    bar = tl.max(tl.where(index == crossing, order, -0x80000000))
    is_kept = (order >= bar) & (weights >= tl.load(settings + MIN_P).to(tl.float32))
    weights = tl.where(is_kept, weights, 0.0)

    # Once more in the order of the ids, which the draw goes by.
    by_id = ((both & 0xFFFFFFFF) << 32) | weights.to(tl.int32, bitcast=True).to(tl.int64)
    by_id = tl.sort(tl.where(inside, by_id, 0x7FFFFFFF00000000))
    weights = (by_id & 0xFFFFFFFF).to(tl.int32).to(tl.float32, bitcast=True).to(tl.float64)
    found, _ = _locate(weights, uniform * tl.sum(weights))
    return tl.max(tl.where(index == found, by_id >> 32, 0)).to(tl.int32)


@triton.jit
def _kept(x, bar, min_p, best, scale, SHIFT: tl.constexpr):
    """The weights of tokens, 0 for those that are dropped."""
    weights = _weights(x, best, scale)
    return tl.where((_key(x, SHIFT) >= bar) & (weights >= min_p), weights, 0.0)


@triton.jit
def _reached(here, pivots, BY_MASS: tl.constexpr, SHIFT: tl.constexpr):
    """float64 [pivots]: how many allowed tokens have a key of at least each pivot, or what they weigh.

    Pivots are above the key of -inf, or weights are asked for: so forbidden tokens add nothing.
    """
    logits_row, bits, maxima_row, size, blocks, best, scale = here
    reached = tl.zeros([_PIVOTS], tl.float64)
    lowest = tl.min(pivots)
    for block in range(blocks):
        if _key(tl.load(maxima_row + block), SHIFT) >= lowest:
            flat = tl.reshape(_block(logits_row, bits, block, size), [BLOCK])
            is_above = _key(flat, SHIFT)[:, None] >= pivots[None, :]
            if BY_MASS:
                worth = tl.where(is_above, _weights(flat, best, scale)[:, None], 0.0)
            else:
                worth = is_above.to(tl.float32)
            reached += tl.sum(worth, axis=0).to(tl.float64)
    return reached


@triton.jit
def _search(here, low, high, target, BY_MASS: tl.constexpr, SHIFT: tl.constexpr):
    """The largest key in [low, high) with as much at or above it as ``target``; ``low`` if no other has."""
    while high - low > 1:
        step = (high - low + _PIVOTS) // (_PIVOTS + 1)
        pivots = tl.minimum(low + step * (1 + tl.arange(0, _PIVOTS)), high).to(tl.int32)
        passed = tl.sum((_reached(here, pivots, BY_MASS, SHIFT) >= target).to(tl.int32))
        high = tl.minimum(high, low + step * (passed + 1))
        low = low + step * passed
    return low
