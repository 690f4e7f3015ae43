"""Plain values: types and layouts of a tensor's elements, and the memories and cores that may hold them. They
need no device.

Read: values (types, layouts, shapes), cores, configs (memory configurations), placing (layouts).
"""
