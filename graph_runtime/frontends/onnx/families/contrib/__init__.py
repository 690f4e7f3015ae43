"""com.microsoft: what ONNX Runtime's optimizer (ops, attention) and quantizer (quantize) write."""

from . import attention, ops, quantize
