import recipes


class Catalog:
    """A resource that protects itself, shared between readers and writers."""

    def __init__(self) -> None:
        self.newest_token = 0  # of all grants seen
        self.newest_writer = 0  # of writers alone
        self.items: list[str] = []

    def write(self, item: str, *, fence: int) -> None:
        if fence < self.newest_token:
            raise PermissionError(f"token {fence} is older than {self.newest_token}")
        self.newest_token = self.newest_writer = fence
        self.items.append(item)

    def read(self, *, fence: int) -> list[str]:
        if fence < self.newest_writer:
            raise PermissionError(f"token {fence} is older than the last writer's, {self.newest_writer}")
        self.newest_token = max(self.newest_token, fence)
        return list(self.items)


stored = Catalog()
with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    lock = client.rwlock("catalog")
    with lock.writer as grant:
        stored.write("a book", fence=grant.token)
    with lock.reader as grant:
        print(stored.read(fence=grant.token))
