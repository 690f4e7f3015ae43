"""Bundles: programs, libraries and parameters in one folder or stored zip.

Read: bundle (what is in one), files (where their bytes lie), writer. The parameter file:
ir/documents/weights.py.
"""
