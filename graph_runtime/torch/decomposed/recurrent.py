"""The cells of nn.LSTM and nn.GRU, which torch fuses for devices other than the CPU, composed of smaller
operations.

Gates are [batch, n * width], in torch's order: input, forget, new and output for an LSTM; reset, update and
new for a GRU. The workspace holds the values that the backward pass needs.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

_Optional: TypeAlias = torch.Tensor | None


def _biased(gates: torch.Tensor, bias: _Optional) -> torch.Tensor:
    return gates if bias is None else gates + bias


def _or_none(grad: torch.Tensor, has_bias: bool) -> _Optional:
    return grad.sum(0) if has_bias else None


def lstm_cell(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    input_bias: _Optional = None,
    hidden_bias: _Optional = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """aten::_thnn_fused_lstm_cell: (output, new cell, workspace [batch, 4 * width])."""
    gates = _biased(inputs, input_bias) + _biased(hidden, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
    made = f * cell + i * g
    return o * torch.tanh(made), made, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(
    grad_output: _Optional,
    grad_cell: _Optional,
    cell: torch.Tensor,
    made: torch.Tensor,
    workspace: torch.Tensor,
    has_bias: bool,
) -> tuple[_Optional, _Optional, _Optional]:
    """aten::_thnn_fused_lstm_cell_backward_impl: gradients of (gates, cell, biases)."""
    if grad_output is None and grad_cell is None:
        return None, None, None
    i, f, g, o = workspace.chunk(4, 1)
    squashed = torch.tanh(made)
    grad_output = torch.zeros_like(made) if grad_output is None else grad_output
    inner = grad_output * o * (1 - squashed * squashed)
    inner = inner if grad_cell is None else inner + grad_cell
    gates = torch.cat(
        [
            inner * g * i * (1 - i),
            inner * cell * f * (1 - f),
            inner * i * (1 - g * g),
            grad_output * squashed * o * (1 - o),
        ],
        1,
    )
    return gates, inner * f, _or_none(gates, has_bias)


def gru_cell(
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    state: torch.Tensor,
    input_bias: _Optional = None,
    hidden_bias: _Optional = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """aten::_thnn_fused_gru_cell: (new state, workspace [batch, 5 * width])."""
    input_r, input_z, input_n = _biased(inputs, input_bias).chunk(3, 1)
    hidden_r, hidden_z, hidden_n = _biased(hidden, hidden_bias).chunk(3, 1)
    r, z = torch.sigmoid(input_r + hidden_r), torch.sigmoid(input_z + hidden_z)
    n = torch.tanh(input_n + r * hidden_n)
    return n + z * (state - n), torch.cat([r, z, n, state, hidden_n], 1)


def gru_cell_backward(grad: torch.Tensor, workspace: torch.Tensor, has_bias: bool) -> tuple[Any, ...]:
    """aten::_thnn_fused_gru_cell_backward: gradients of (input gates, hidden gates, state, both biases)."""
    r, z, n, state, hidden_n = workspace.chunk(5, 1)
    new = grad * (1 - z) * (1 - n * n)
    reset = new * hidden_n * r * (1 - r)
    update = grad * (state - n) * z * (1 - z)
    inputs = torch.cat([reset, update, new], 1)
    hidden = torch.cat([reset, update, new * r], 1)
    return inputs, hidden, grad * z, _or_none(inputs, has_bias), _or_none(hidden, has_bias)


CELLS = {
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}
