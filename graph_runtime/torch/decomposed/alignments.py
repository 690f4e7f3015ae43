"""CTC loss on a device: each step of the forward or backward pass advances all sequences of a batch by one
time step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_NEVER = float("-inf")
Lengths = Any  # numbers, or a tensor of numbers


def _numbers(lengths: Lengths) -> list[int]:
    return lengths.tolist() if isinstance(lengths, torch.Tensor) else list(lengths)


def _extended(targets: torch.Tensor, lengths: Sequence[int], blank: int) -> torch.Tensor:
    """int64 [batch, 2 * longest + 1]: each row's labels, with a blank before, between and after them; further
    blanks fill the row."""
    longest = max(lengths, default=0)
    device, batch = targets.device, len(lengths)
    blanks = torch.full((batch, longest), blank, dtype=targets.dtype, device=device)
    first = torch.full((batch, 1), blank, dtype=targets.dtype, device=device)
    if not longest:
        return first.long()
    if targets.dim() == 1:
        begins = [sum(lengths[:at]) for at in range(batch)]
        places = [[min(b + i, targets.numel() - 1) for i in range(longest)] for b in begins]
        labels = targets[torch.tensor(places, device=device)]
    else:
        labels = targets[:, :longest]
    there = torch.tensor([[i < n for i in range(longest)] for n in lengths], device=device)
    pairs = torch.stack([torch.where(there, labels, blanks), blanks], -1).reshape(batch, 2 * longest)
    return torch.cat([first, pairs], 1).long()


def _sum_of(*terms: torch.Tensor) -> torch.Tensor:
    """The logarithm of the sum of the terms' exponentials."""
    top = terms[0]
    for term in terms[1:]:
        top = torch.maximum(top, term)
    top = torch.where(top == _NEVER, torch.zeros_like(top), top)
    total = torch.exp(terms[0] - top)
    for term in terms[1:]:
        total = total + torch.exp(term - top)
    return torch.log(total) + top


def _moved(state: torch.Tensor, by: int) -> torch.Tensor:
    """A state [batch, positions] shifted along the positions; -inf enters at the edge."""
    if abs(by) >= state.shape[1]:
        return torch.full_like(state, _NEVER)
    edge = torch.full((state.shape[0], abs(by)), _NEVER, dtype=state.dtype, device=state.device)
    return torch.cat([edge, state[:, :-by]] if by > 0 else [state[:, -by:], edge], 1)


def _walk(scores: torch.Tensor, start: torch.Tensor, skips: torch.Tensor, way: int) -> list[torch.Tensor]:
    """The states at all times. ``scores`` [time, batch, positions] are in the order of the walk; ``skips``: 0
    where the walk may skip a position, else -inf; ``way``: direction of the walk, 1 towards higher positions,
    -1 towards lower positions.
    """
    state, states = start, [start]
    for now in scores.unbind(0)[1:]:
        state = _sum_of(state, _moved(state, way), _moved(state, 2 * way) + skips) + now
        states.append(state)
    return states


def _marks(rows: list[list[bool]], like: torch.Tensor) -> torch.Tensor:
    """0 where an entry of ``rows`` is true, else -inf."""
    given = torch.tensor([[0.0 if yes else _NEVER for yes in row] for row in rows], dtype=like.dtype)
    return given.to(like.device)


def _skips(labels: torch.Tensor, blank: int, like: torch.Tensor) -> torch.Tensor:
    """[batch, positions]: 0 where the label differs from the label two positions before and neither of
    the two is blank, else -inf."""
    if labels.shape[1] < 3:
        return torch.full(labels.shape, _NEVER, dtype=like.dtype, device=like.device)
    free = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    zero = torch.zeros((), dtype=like.dtype, device=like.device)
    edge = torch.full((labels.shape[0], 2), _NEVER, dtype=like.dtype, device=like.device)
    return torch.cat([edge, torch.where(free, zero, zero + _NEVER)], 1)


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """aten::_ctc_loss: (losses [batch], log of the sum over all paths to each position [batch, time,
    positions])."""
    times, sizes = _numbers(input_lengths), _numbers(target_lengths)
    labels = _extended(targets, sizes, blank)
    places = labels.shape[1]
    scores = log_probs.gather(2, labels[None].expand(log_probs.shape[0], -1, -1))
    begin = _marks([[s < min(2, 2 * n + 1) for s in range(places)] for n in sizes], log_probs)
    alphas = torch.stack(_walk(scores, scores[0] + begin, _skips(labels, blank, log_probs), 1), 1)
    last = torch.tensor([max(t - 1, 0) for t in times], device=log_probs.device)
    ends = alphas[torch.arange(len(times), device=log_probs.device), last]
    end = _marks([[2 * n - 1 <= s <= 2 * n for s in range(places)] for n in sizes], log_probs)
    losses = -torch.logsumexp(ends + end, 1)
    if not all(times):
        none = torch.tensor([not t for t in times], device=log_probs.device)
        of_none = torch.tensor([float("inf") if n else 0.0 for n in sizes], dtype=log_probs.dtype)
        losses = torch.where(none, of_none.to(log_probs.device), losses)
    if zero_infinity:
        losses = torch.where(losses == float("inf"), torch.zeros_like(losses), losses)
    return losses, alphas


def ctc_loss_backward(
    grad: torch.Tensor,
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    losses: torch.Tensor,
    alphas: torch.Tensor,
    blank: int,
    zero_infinity: bool = False,
) -> torch.Tensor:
    """aten::_ctc_loss_backward: the gradient with respect to log_probs: the predicted probability of each
    label minus its expectation over the paths."""
    times, sizes = _numbers(input_lengths), _numbers(target_lengths)
    labels, length = _extended(targets, sizes, blank), log_probs.shape[0]
    places = labels.shape[1]
    at = labels[None].expand(length, -1, -1)
    scores = log_probs.gather(2, at)
    end = _marks([[2 * n - 1 <= s <= 2 * n for s in range(places)] for n in sizes], log_probs)
    skips, state, betas = _moved(_skips(labels, blank, log_probs), -2), None, []
    for time in reversed(range(length)):
        begun = scores[time] + end
        if state is None:
            state = begun
        else:
            state = _sum_of(state, _moved(state, -1), _moved(state, -2) + skips) + scores[time]
            if any(t - 1 == time for t in times):
                now = torch.tensor([[t - 1 == time] for t in times], device=log_probs.device)
                state = torch.where(now, begun, state)
        betas.append(state)
    ways = alphas.transpose(0, 1) + torch.stack(betas[::-1], 0) - scores + losses[None, :, None]
    taken = torch.zeros_like(log_probs).scatter_add(2, at, torch.exp(ways))
    made = (torch.exp(log_probs) - taken) * grad[None, :, None]
    known = torch.tensor([[[time < t] for t in times] for time in range(length)], device=log_probs.device)
    if zero_infinity:
        known = known & (losses != float("inf"))[None, :, None]
    return torch.where(known, made, torch.zeros_like(made))


CTC = {
    "_ctc_loss": ctc_loss,
    "_ctc_loss.Tensor": ctc_loss,
    "_ctc_loss_backward": ctc_loss_backward,
    "_ctc_loss_backward.Tensor": ctc_loss_backward,
}
