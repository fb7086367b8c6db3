import recipes


def work(leadership: recipes.Leadership) -> str:  # called whenever this process is elected
    for job in ("report", "backup"):  # your scheduler, which continues while it leads
        leadership.check()  # raises LockLost: then `run` campaigns again
        print(f"{leadership.value} makes the {job} under token {leadership.token}")
        leadership.lost.wait(0.1)  # as sleep(), but ends early if the leadership is lost
    return "done"


with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    print(client.election("scheduler").run(work, value="machine-1"))
