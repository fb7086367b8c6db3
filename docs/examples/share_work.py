import threading

import recipes

SHARDS = [f"shard-{number}" for number in range(4)]


class Worker(threading.Thread):
    """Works on one shard until it is stopped, or its grant is lost."""

    def __init__(self, shard: str, grant: recipes.Grant) -> None:
        super().__init__()
        self.shard, self.grant, self.stopping = shard, grant, threading.Event()

    def run(self) -> None:
        while self.grant.held and not self.stopping.wait(0.1):
            pass  # a step of the work: index(self.shard, fence=self.grant.token)

    def stop(self) -> None:
        self.stopping.set()
        self.join()


def serve(client: recipes.Client, stopping: threading.Event) -> None:
    workers: dict[str, Worker] = {}
    with client.group("indexers").join() as membership:
        partitions = membership.partitions(SHARDS)
        try:
            while not stopping.is_set():
                assignment = partitions.next(timeout=1)  # also gives away what was leaving
                if assignment is None:  # no change
                    continue
                for shard in assignment.leaving:
                    workers.pop(shard).stop()
                for shard, grant in assignment.new.items():
                    workers[shard] = Worker(shard, grant)
                    workers[shard].start()
                print("works on", *assignment)
        finally:
            for worker in workers.values():
                worker.stop()


stopping = threading.Event()  # in a service, set by the handler of SIGTERM
threading.Timer(0.5, stopping.set).start()
with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    serve(client, stopping)
