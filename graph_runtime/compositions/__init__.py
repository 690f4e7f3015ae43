"""Compositions: functions composed of the registry's ops, each written once, for Values.

Read derivatives (of elementwise functions), gradients (of functions of several values), special (functions
without a kernel), signs (of signs, zeros and NaN), integers, norms, attention, rotary, scans and resampling.
The tables of ONNX, StableHLO, torch and ttnn name the compositions; each is tested by running it on numpy
arrays (accuracy/array_value.py).
"""
