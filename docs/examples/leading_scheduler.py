import threading

import recipes

stopping = threading.Event()
threading.Timer(0.5, stopping.set).start()  # in a service: a handler of SIGTERM


def schedule(leadership: recipes.Leadership) -> None:
    while leadership.held and not stopping.is_set():
        print("starts what is due, under token", leadership.token)
        stopping.wait(0.2)


with recipes.connect("sqlite://./locks.db") as client:
    client.election("scheduler").run(schedule, "host-1")
    print("resigned")
