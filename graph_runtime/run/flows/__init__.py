"""Models whose sizes or values are known only at run time: specializations of fixed sizes, and a flow that
runs them.

Read: flow (steps, each found once for its sizes), loops, specializations (how they are made and kept), then
flow_module (the object that create() returns). Memory stays static: each specialization is planned for its
own sizes."""
