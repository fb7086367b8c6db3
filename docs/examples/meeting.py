import threading

import recipes

with recipes.connect("zookeeper://127.0.0.1:2181/app") as client:
    step = client.barrier("simulation/step", parties=3)

    def work() -> None:
        for number in range(2):
            # compute this step
            if step.wait(timeout=60) == 0:  # one of them, in each generation
                print("all have done step", number)

    threads = [
        threading.Thread(target=work) for _ in range(3)
    ]  # in a service: three processes
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    try:
        step.wait(timeout=0.1)  # the others do not come any more
    except recipes.BarrierBroken as broken:
        print(broken)
