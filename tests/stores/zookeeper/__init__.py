"""The ZooKeeper transport, against a ZooKeeper in this process."""
