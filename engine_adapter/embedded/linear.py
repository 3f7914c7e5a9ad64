"""Linear layers in float32 on a CPU, by oneDNN where that is quicker than what torch calls by itself.

torch multiplies float32 matrices with MKL, which on processors of AMD uses half of the vector width that they have;
oneDNN, which comes with torch and multiplies its other types, uses all. Measured on an AMD EPYC with AVX-512, one
thread, times as fast: 1.5 to 2.1 for 8 to 256 rows and the matrices of a small model, 1.7 to 2.3 for its large last one
with any number of rows; slower for one or two rows and a small matrix, which are left to MKL.
"""

from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

_ANY_ROWS: Final = 1 << 24
"""Elements of a matrix from which on oneDNN is quicker even for one row."""

_LEAST_ROWS: Final = 3

_LEAST: Final = 1 << 20
"""Elements of the matrix times rows, from which on it is quicker for the rows that there are at least."""


class OneDnnLinear(nn.Linear):
    """`torch.nn.Linear` in float32 on a CPU; what it computes is the same but for the last bits."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """See `torch.nn.Linear`."""
        rows, size = input.numel() // self.in_features, self.weight.numel()
        if size >= _ANY_ROWS or (rows >= _LEAST_ROWS and rows * size >= _LEAST):
            return _multiply(input, self.weight, self.bias)
        return functional.linear(input, self.weight, self.bias)


def use_onednn(model: nn.Module) -> None:
    """Makes a model's linear layers that are float32 on a CPU use oneDNN, if torch has it here."""
    if not _works():
        return
    for module in model.modules():
        if type(module) is nn.Linear and (module.weight.device.type, module.weight.dtype) == ("cpu", torch.float32):
            module.__class__ = OneDnnLinear


def _multiply(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    # The call into which torch's own compiler turns linear layers. Nothing documented leads to it without a compiler.
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product


def _works() -> bool:
    """Whether the call is there, and does what it is taken for."""
    rows, weight, bias = (
        torch.linspace(-1, 1, 24).view(2, 3, 4),
        torch.linspace(-2, 1, 20).view(5, 4),
        torch.arange(5.0),
    )
    expected: Any = functional.linear(rows, weight, bias)
    try:
        return torch.allclose(_multiply(rows, weight, bias), expected, atol=1e-5)
    except (AttributeError, RuntimeError, TypeError):  # a torch without oneDNN, or with another call
        return False
