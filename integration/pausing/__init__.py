"""A holder that is stopped too long, for the picture of it: what its processes did, written down."""
