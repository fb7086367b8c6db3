import pathlib
import time

import recipes

counter = pathlib.Path("visits.txt")

with recipes.connect("sqlite://./locks.db") as client:
    lock = client.lock("visits")
    for _ in range(50):
        with lock:  # waits for its turn; at the end of the block it is the next one's
            visits = int(counter.read_text() or 0)
            time.sleep(0.005)
            counter.write_text(str(visits + 1))
