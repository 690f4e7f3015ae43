"""What optimum imports of onnxruntime.transformers: io_binding_helper."""
