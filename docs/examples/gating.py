import recipes
from recipes import fencing


class Catalog:
    """A resource that protects itself, shared between readers and writers."""

    def __init__(self) -> None:
        self.seen = fencing.Seen()  # the two numbers
        self.items: list[str] = []

    def write(self, item: str, *, fence: int) -> None:
        self.seen = self.seen.admit("catalog", fence)  # or raises StaleToken
        self.items.append(item)

    def read(self, *, fence: int) -> list[str]:
        self.seen = self.seen.admit("catalog", fence, shared=True)
        return list(self.items)


stored = Catalog()
with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    lock = client.rwlock("catalog")
    with lock.writer as grant:
        stored.write("a book", fence=grant.token)
    with lock.reader as grant:
        print(stored.read(fence=grant.token))
