"""``recipes timeline`` and ``recipes stats``: what the structured log says, as a picture and in figures.

A log is read (`reading`), turned into who waited and held when (`spans`), and that is drawn (`drawing`,
`page`) or counted (`counting`).
"""
