"""The token-mask sampler: logits, a bitmask and each request's parameters to one token a row.

What is done to a row, in this order; ``x`` are its logits in float32:

1. **mask**: only tokens whose bit is set can be sampled. What stands at other positions (NaN, inf) has no effect.
2. **bias and penalties**: ``x`` + logit_bias; what is then positive divided by, the rest multiplied with the repetition
   penalty, if the token is in the prompt or was generated; less the frequency penalty as often as it was generated,
   and once the presence penalty if it was (as in vLLM).
3. **temperature** T: the weight of a token is exp((x - max x) / T). T = 0 takes the largest ``x``, the lowest id among
   equals, and ends here.
4. **top-k**: keeps tokens with ``x`` at least the k-th largest; tokens equal to that one all stay, even if that makes
   more than k (as in transformers and vLLM), so the set never depends on the order of a sort.
5. **top-p**: keeps a token if the tokens with larger ``x`` hold less than the share p of what step 4 left. So the token
   that reaches p stays, with those equal to it, and the most likely one always does.
6. **min-p**: keeps tokens that weigh at least min_p times the most likely one.
7. **draw**: the request's one uniform number u in [0, 1) for this position picks, in the order of token ids, the first
   kept token at which the cumulative weight exceeds u times the sum of what was kept (the inverse CDF).

So a token depends on the row's logits, mask, parameters, tokens so far and u only. Log-probabilities are of the weights
of step 3 (`Sampled`). `sampler.sample` is the function: by `cpu_sampler` on the CPU where Numba is installed, by
`triton_sampler` on CUDA where Triton is, by `torch_sampler` elsewhere. This package itself imports no torch::

    batch = SamplingBatch()
    slot = batch.join(SamplingParams(temperature=0.8, seed=1))
    sampled = sample(logits, batch.rows([slot], [position]), bitmask, row_map)
"""

from engine_adapter.sampling.batch import SamplingBatch, SamplingRows, request_uniform
from engine_adapter.sampling.params import MAX_LOGPROBS, SamplingParams
from engine_adapter.sampling.penalties import LogitChanges, TokenCounts

__all__ = [
    "MAX_LOGPROBS",
    "LogitChanges",
    "SamplingBatch",
    "SamplingParams",
    "SamplingRows",
    "TokenCounts",
    "request_uniform",
]
