"""Plain values: what a tensor's elements are and where they may lie. No device is needed for them.

Read: values (types, layouts, shapes), cores, configs (memory configurations), placing (layouts).
"""
