"""States that are updated token by token or chunk by chunk: affine transitions, and the gated delta rule
(Yang et al., "Gated Delta Networks", 2024)."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ..ir.value import Value

V = TypeVar("V", bound=Value)


def stacked(parts: list[V], axis: int) -> V:
    """Tensors of one shape side by side along a new axis."""
    made = [part.op("unsqueeze", axes=[axis]) for part in parts]
    return made[0] if len(made) == 1 else made[0].op("concatenate", *made[1:], axis=axis)


def inverse_of_unit_lower(lower: V) -> V:
    """The inverse of I + lower [.., n, n], whose strictly lower part alone is read: the sum of the powers of
    -lower, of which the first n differ from 0, as a product of log n factors."""
    size = lower.shape[-1]
    below = lower.scalar(np.tri(size, k=-1, dtype=np.float32))
    power, unit = -(lower * below), lower.scalar(np.eye(size, dtype=np.float32))
    made, reach = power + unit, 2
    while reach < size:
        power = power @ power
        made, reach = made @ (power + unit), 2 * reach
    return made


def scan_chunks(terms: dict[str, V], state: V) -> tuple[list[V], V]:
    """(the results of each chunk, the state after the last chunk). ``terms`` have the chunks on axis 1; state
    is [b, k, v]. In each chunk u = inverse (values - keys state), the result is queries state + intra u, and
    the next state is decay state + updates u."""
    made = []
    for at in range(terms["values"].shape[1]):
        here = {name: term[:, at] for name, term in terms.items()}
        u = here["inverse"] @ (here["values"] - here["keys"] @ state)
        if "queries" in here:
            made.append(here["queries"] @ state + here["intra"] @ u)
        state = here["decay"] * state + here["updates"] @ u
    return made, state


def delta_terms(q: V, k: V, v: V, g: V, beta: V) -> dict[str, V]:
    """The terms of scan_chunks for the gated delta rule. q and k are [b, chunks, c, k], v is
    [b, chunks, c, v], the logarithms g of the decays and beta are [b, chunks, c, 1]."""
    size = q.shape[-2]
    below = q.scalar(np.tri(size, dtype=np.float32))
    total = below @ g
    across = total.op("transpose", perm=(0, 1, 3, 2))
    decays = ((total - across) * below).exp() * below
    keys, turned = k * beta, k.op("transpose", perm=(0, 1, 3, 2))
    last = total[:, :, size - 1 :]
    return {
        "values": v * beta,
        "keys": keys * total.exp(),
        "inverse": inverse_of_unit_lower((keys @ turned) * decays),
        "queries": q * total.exp(),
        "intra": (q @ turned) * decays,
        "decay": last.exp(),
        "updates": (k * (last - total).exp()).op("transpose", perm=(0, 1, 3, 2)),
    }


def delta_steps(q: V, k: V, v: V, g: V, beta: V, state: V) -> tuple[list[V], list[V]]:
    """(the results [b, 1, v], the states [b, k, v]) after each token of the gated delta rule. q and k are
    [b, t, k], v is [b, t, v], g and beta are [b, t, 1]."""
    made, states = [], []
    for at in range(q.shape[1]):
        queries, keys, values, decay, rate = (x[:, at : at + 1] for x in (q, k, v, g.exp(), beta))
        state = state * decay
        change = (values - keys @ state) * rate
        state = state + keys.op("transpose", perm=(0, 2, 1)) @ change
        made.append(queries @ state)
        states.append(state)
    return made, states


def rows_of_norm_one(x: V, epsilon: float = 1e-6) -> V:
    """Rows divided by the square root of the sum of their squares and epsilon."""
    return x * (x.square().sum([-1]) + epsilon).rsqrt()
