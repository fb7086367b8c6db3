import threading

import recipes

with recipes.connect("zookeeper://127.0.0.1:2181/app") as client:
    test = client.barrier("load-test", parties=3)

    def work() -> None:
        test.enter(timeout=60)  # nobody begins before all are there
        try:
            print("under load")
        finally:
            test.leave(timeout=60)  # and nobody stops before all are done

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("all have left")
