"""Converters of com.microsoft: ops that ONNX Runtime's optimizer (ops, attention) and quantizer (quantize)
write."""

from . import attention, ops, quantize
