"""Modules that tt-metal's scripts and tests import: ttnn and helpers.

Read: install (the names of modules), meshes (fixtures about more than one chip), helpers.
"""
