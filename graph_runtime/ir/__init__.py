"""Graphs and models as values, and the documents from which they are read.

Read: graph (columns of nodes and entries), ops/ (the table of ops), documents/ (graph.json and parameters),
builder (graphs written in Python), model (a graph with its constants).
"""
