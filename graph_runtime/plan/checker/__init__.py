"""The independent checker of plans: its rules share no code with the passes that they judge.

Read check.py first: it names the rules in the order in which they are applied. facts.py is what they look at,
then nodes, storage, overlap and models, a group of rules each; races.py judges the lanes of queues.
"""
