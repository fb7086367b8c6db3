"""Servers that ask who is there: TLS, users, roles and ACLs, and the faults that come with them."""
