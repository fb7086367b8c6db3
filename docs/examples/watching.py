import sys

import recipes
from recipes import events

stop_log = events.log_json(sys.stdout)  # every transition as a line of JSON
waits: list[float] = []


def measure(transition: events.Transition) -> None:
    if transition.event == "lock.acquired" and transition.waited_s is not None:
        waits.append(transition.waited_s)


stop_measuring = events.subscribe(measure)

with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    with client.lock("reports/nightly"):
        pass

stop_measuring()
stop_log()
print(f"waited {sum(waits):.3f} s in all")
