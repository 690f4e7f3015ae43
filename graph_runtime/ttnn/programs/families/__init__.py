"""Tables from an operation's name to the card programs of a call, by family.

A row gives a ``CardProgram``, a list of ``CardStage``, or None for a form that no factory covers.
"""
