"""What runs tt-metal's scripts and tests: ``import ttnn``, and what else they import.

Read: install (what is put under which name), meshes (fixtures about more than one chip), helpers.
"""
