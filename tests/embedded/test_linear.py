"""Linear layers by oneDNN are linear layers."""

import pytest
import torch
from torch import nn

from engine_adapter.embedded import linear
from engine_adapter.embedded.linear import OneDnnLinear, use_onednn

SIZES = ((5, 3), (192, 576), (1536, 576), (49152, 352))
"""What a layer gives and takes: too small for oneDNN whatever the rows, to large enough whatever the rows."""


@pytest.fixture(autouse=True)
def _here() -> None:
    if not linear._works():
        pytest.skip("torch has no oneDNN here")


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_it_computes_what_torch_does_whatever_the_rows(size: tuple[int, int], bias: bool) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(size[1], size[0], bias=bias)
    batches = [torch.randn(*shape, size[1]) for shape in ((1,), (2,), (1, 3), (4, 2, 8), (70,))]
    batches.append(torch.randn(size[1], 9).T)  # not contiguous
    batches.append(torch.randn(1, 0, size[1]))
    expected = [layer(rows) for rows in batches]
    use_onednn(layer)
    assert type(layer) is OneDnnLinear
    for rows, wanted in zip(batches, expected, strict=True):
        with torch.inference_mode():
            torch.testing.assert_close(layer(rows), wanted, rtol=1e-4, atol=1e-4)


def test_other_layers_stay_as_they_are() -> None:
    class Own(nn.Linear):
        pass

    layers = nn.Sequential(Own(4, 4), nn.Linear(4, 4, dtype=torch.bfloat16), nn.Linear(4, 4, device="meta"), nn.GELU())
    before = [type(layer) for layer in layers]
    use_onednn(layers)
    assert [type(layer) for layer in layers] == before


def test_a_torch_without_the_call_keeps_its_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> torch.Tensor:
        raise AttributeError("_linear_pointwise")

    monkeypatch.setattr(linear, "_multiply", missing)
    layer = nn.Linear(4, 4)
    use_onednn(layer)
    assert type(layer) is nn.Linear
