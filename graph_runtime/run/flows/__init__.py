"""Models whose sizes or values are known at run time only: programs of fixed sizes, and a flow above them.

Read flow (what is run next, found out once for each size), loops, programs (which of them are kept), then
flow_module, which create() returns. Memory stays static: a program is planned for the sizes that it has.
"""
