"""Storages of torch that leave the process: in other processes (processes) and in files (serialization,
safetensors_reader).
"""
