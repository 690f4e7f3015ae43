"""Bundles: programs, libraries and parameters in one folder or stored zip, read and written."""
