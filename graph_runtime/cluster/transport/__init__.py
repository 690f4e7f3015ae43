"""How processes of this package talk: one format of messages, over connections that threads use.

Read: messages (the format), shared_memory; limits (times and sizes of all that follows), sockets, proofs,
connections (one end), crew, listening (strangers are kept out), endpoint (links, made when they are used).
"""
