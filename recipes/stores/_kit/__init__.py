"""What stores share that carry out an operation on a whole queue in one step; see `queue`."""
