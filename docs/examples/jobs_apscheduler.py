import threading

from apscheduler.schedulers.background import BackgroundScheduler

import recipes

stopping = threading.Event()


def report(leadership: recipes.Leadership) -> None:
    leadership.check()  # raises LockLost if another host leads
    print("report made under token", leadership.token)
    stopping.set()  # in a service: on SIGTERM


def schedule(leadership: recipes.Leadership) -> None:
    scheduler = BackgroundScheduler()
    scheduler.add_job(report, "interval", seconds=0.3, args=[leadership])
    scheduler.start()
    while leadership.held and not stopping.is_set():
        stopping.wait(0.2)
    scheduler.shutdown()


with recipes.connect("sqlite://./locks.db") as client:
    client.election("scheduler").run(schedule, "host-1")
