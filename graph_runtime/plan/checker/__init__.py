"""The independent checker of plans: its rules share no code with the passes that they judge.

Read check.py first: it lists the rules in the order in which they are applied, and has the rules about
storages and time. facts.py has the facts that the rules read, and the rules about nodes; overlap.py handles
storages that share bytes, models.py the op models that a balancer chose, races.py the lanes of queues.
"""
