"""Artifacts: from what a user has to what is run. Prepared plans, module libraries and bundles as files.

Read door (what a source is), plannable, prepare (source -> Plan), libraries/ (a shared object's own
description), bundles/, parameters (of a bundle, for readers of parameter files), trust (which native code may
be opened).
"""
