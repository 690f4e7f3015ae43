"""Bundles: programs, libraries and parameters in one folder or stored zip.

Read: bundle (its contents), files (places of their bytes), writer. The format of the parameter file is in
ir/documents/weights.py.
"""
