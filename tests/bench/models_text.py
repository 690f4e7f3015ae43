"""Transformers as shape-only graphs of gr.op nodes: encoders over whole sequences, decoders for one token.

Heads are split from the transposed projection, [batch, width, tokens], whose rows they share: reshaping that
moves nothing, and products take their operands transposed.
"""

from __future__ import annotations

from models_images import Net

from graph_runtime.ir.value import Value


def _norm(net: Net, x: Value) -> Value:
    return net.op("layer_norm", x, net.param(x.shape[-1]), net.param(x.shape[-1]))


def _dense(net: Net, x: Value, out: int) -> Value:
    return net.op("dense", x, net.param(out, x.shape[-1]), net.param(out))


def _heads(net: Net, x: Value, heads: int, parts: int) -> list[Value]:
    """``parts`` of [batch, heads, width, tokens] from [batch, tokens, parts * heads * width]."""
    batch, tokens, width = x.shape
    turned, each = net.op("transpose", x, perm=[0, 2, 1]), width // parts
    found = []
    for i in range(parts):
        part = (
            net.op("slice", turned, starts=[i * each], ends=[(i + 1) * each], axes=[1])
            if parts > 1
            else turned
        )
        found.append(net.op("reshape", part, shape=[batch, heads, each // heads, tokens]))
    return found


def _attend(net: Net, q: Value, k: Value, v: Value) -> Value:
    """[batch, tokens, heads * width] of heads [batch, heads, width, tokens]."""
    batch, heads, width, tokens = q.shape
    scores = net.op("softmax", net.op("matmul", q, k, transpose_a=True))
    found = net.op("matmul", v, scores, transpose_b=True)
    found = net.op("reshape", found, shape=[batch, heads * width, tokens])
    return net.op("transpose", found, perm=[0, 2, 1])


def _layer(net: Net, x: Value, heads: int, hidden: int, norm_first: bool) -> Value:
    width = x.shape[-1]
    y = _norm(net, x) if norm_first else x
    y = _dense(net, _attend(net, *_heads(net, _dense(net, y, 3 * width), heads, 3)), width)
    x = net.op("add", x, y)
    x = x if norm_first else _norm(net, x)
    y = _norm(net, x) if norm_first else x
    y = net.op("add", x, _dense(net, net.op("gelu", _dense(net, y, hidden)), width))
    return y if norm_first else _norm(net, y)


def bert(batch: int, tokens: int = 384, layers: int = 24, width: int = 1024, heads: int = 16) -> str:
    """Embeddings and encoder; BERT-Large unless said."""
    net = Net((batch, tokens, width))
    x = _norm(net, net.op("add", net.image, net.param(1, tokens, width)))
    for _ in range(layers):
        x = _layer(net, x, heads, 4 * width, False)
    return net.done(x)


def sentence_bert(batch: int) -> str:
    return bert(batch, 384, 12, 768, 12)


def vit_base(batch: int, layers: int = 12) -> str:
    """Patches of 16x16 pixels come cut: 196 of 768 numbers; with the class token 197."""
    net = Net((batch, 196, 768))
    x = net.op("concatenate", net.param(batch, 1, 768), _dense(net, net.image, 768), axis=1)
    x = net.op("add", x, net.param(1, 197, 768))
    for _ in range(layers):
        x = _layer(net, x, 12, 3072, True)
    first = net.op("slice", _norm(net, x), starts=[0], ends=[1], axes=[1])
    return net.done(_dense(net, net.op("reshape", first, shape=[batch, 768]), 1000))


def decoder(
    batch: int,
    *,
    layers: int,
    width: int,
    heads: int,
    kv_heads: int,
    head: int,
    hidden: int,
    vocabulary: int,
    context: int = 256,
    gated: bool = True,
    cross: int = 0,
) -> str:
    """One token of ``batch`` users each, keys and values of ``context`` tokens kept; ``gated``: an MLP of
    three matrices; ``cross``: also attends to so many encoded tokens."""
    net = Net((1, batch, width))
    x = net.image
    for _ in range(layers):
        x = net.op("add", x, _attend_one(net, _norm(net, x), heads, kv_heads, head, context, True))
        if cross:
            x = net.op("add", x, _attend_one(net, _norm(net, x), heads, kv_heads, head, cross, False))
        y = _norm(net, x)
        if gated:
            y = net.op("multiply", net.silu(_matrix(net, y, hidden)), _matrix(net, y, hidden))
        else:
            y = net.op("gelu", _matrix(net, y, hidden))
        x = net.op("add", x, _matrix(net, y, width))
    return net.done(_matrix(net, _norm(net, x), vocabulary))


def _matrix(net: Net, x: Value, out: int) -> Value:
    return net.op("dense", x, net.param(out, x.shape[-1]))


def _attend_one(net: Net, x: Value, heads: int, kv_heads: int, head: int, context: int, own: bool) -> Value:
    """One token a user against its kept keys [users, kv_heads, head, context] and values. The new token's key
    and value are rotated (where ``own``) and would be written in place: no node."""
    users = x.shape[1]
    q = _matrix(net, x, heads * head)
    if own:
        kv = _matrix(net, x, 2 * kv_heads * head)
        for one in (q, kv):
            turned = net.op("multiply", one, net.param(1, 1, one.shape[-1]))
            q = (
                net.op("add", turned, net.op("multiply", one, net.param(1, 1, one.shape[-1])))
                if one is q
                else q
            )
    q = net.op("reshape", q, shape=[users, kv_heads, heads // kv_heads, head])
    keys, values = (net.param(users, kv_heads, head, context) for _ in range(2))
    scores = net.op("softmax", net.op("matmul", q, keys))
    found = net.op("matmul", scores, values, transpose_b=True)
    return _matrix(net, net.op("reshape", found, shape=[1, users, heads * head]), x.shape[-1])
