"""The torch of the CUDA lanes, on a machine without a GPU."""

import torch


def test_it_computes_on_the_cpu() -> None:
    assert torch.ones(2).sum().item() == 2
