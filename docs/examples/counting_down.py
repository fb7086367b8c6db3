import threading

import recipes

with recipes.connect("zookeeper://127.0.0.1:2181/app") as client:
    ready = client.latch("release-42/ready", count=3)

    for _ in range(3):  # in a service: three processes, each with a client of its own
        threading.Thread(target=ready.count_down).start()

    if ready.wait(timeout=60):
        print("all three are ready")

    print("left:", ready.left(), "- and counted down once more:", ready.count_down())
    try:
        client.latch("release-42/ready", count=4).left()
    except recipes.LatchMismatch as refused:
        print(refused)
