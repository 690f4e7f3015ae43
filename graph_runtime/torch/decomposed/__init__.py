"""Operations that torch fuses for other devices, composed here of smaller operations.

Read composites, bags, recurrent, alignments, optimizers and flexible; decompositions lists the operations
that are replaced before a graph is lowered.
"""
