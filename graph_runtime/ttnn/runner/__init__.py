"""Modules that tt-metal's scripts and tests import: ttnn and helpers.

Read: install (the names of modules), environment (a whole environment that has them, by finder), meshes
(fixtures about more than one chip), helpers.
"""
