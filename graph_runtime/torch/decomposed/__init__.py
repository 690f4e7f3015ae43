"""Operations that torch fuses for other devices, in terms of smaller ones.

Read composites, bags, recurrent, alignments, optimizers and flexible; decompositions says which of torch's
operations graphs are lowered without.
"""
