"""Graphs over machines: a plan on devices of several nodes, cut into a part for each.

Read: machine_stages (which nodes run together), cut (the parts and what goes between them).
"""
