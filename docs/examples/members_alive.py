import contextlib
import threading

import recipes

stopping = threading.Event()


def stay(group: recipes.Group, address: bytes) -> None:
    """Be a member until the service stops; join again if the session was lost."""
    while not stopping.is_set():
        with contextlib.suppress(recipes.LockLost), group.join(address) as membership:
            while membership.held and not stopping.wait(0.1):
                pass


with recipes.connect("sqlite://./locks.db") as client:
    web = client.group("web")
    staying = threading.Thread(target=stay, args=(web, b"10.0.0.7:8000"))
    staying.start()
    with web.watch() as watching:
        for members in watching:
            print("alive:", sorted(member.data.decode() for member in members))
            if members:
                stopping.set()  # in a service: a handler of SIGTERM
            elif stopping.is_set():
                break
    staying.join()
