"""Topologies, one a machine: data files of the package."""
