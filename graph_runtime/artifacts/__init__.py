"""Artifacts: the steps from a user's source to runnable files: prepared plans, module libraries and bundles.

Read door (kinds of sources), prepare (source -> Plan), libraries/ (a shared object's own description),
bundles/, trust (native code that may be opened).
"""
