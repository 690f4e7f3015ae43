"""Storages of torch outside of their process: shared with others (processes), in files (serialization,
safetensors_reader).
"""
