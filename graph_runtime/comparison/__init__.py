"""What results should be, and how far they are from it.

Read: interpreter (numpy alone), rearrange (the same graph in other ways), differences (how far), and who
compares: compare (devices with the interpreter), against (outputs with another runtime's).
"""
