"""Converters by family; importing this package fills the table of context.py.

contrib/ has those of com.microsoft, ml/ those of ai.onnx.ml.
"""

from . import (
    attention,
    boxes,
    contrib,
    control,
    conv,
    counted,
    deform_conv,
    elementwise,
    gather,
    grid_sample,
    host,
    inverse,
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
    small_elements,
)
