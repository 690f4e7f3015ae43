"""onnxruntime.transformers, as far as optimum imports it: io_binding_helper."""
