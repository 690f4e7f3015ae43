"""Converters by family; importing this package fills the table of context.py.

contrib/ has those of com.microsoft, ml/ those of ai.onnx.ml.
"""

from . import (
    attention,
    casts,
    contrib,
    control,
    conv,
    counted,
    elementwise,
    gather,
    grid_sample,
    host,
    linear,
    ml,
    normalise,
    pool,
    quantize,
    recurrent,
    reduce,
    resize,
    sequences,
    shapes,
    signal,
)
