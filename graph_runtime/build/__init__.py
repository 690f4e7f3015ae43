"""From what a user has to what is run: prepared plans, module libraries and bundles as files.

Read: prepare (source -> Plan), libraries/ (a shared object's own description), bundles/, parameters (of a
bundle, for readers of parameter files), trust (which native code may be opened).
"""
