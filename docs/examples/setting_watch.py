import contextlib
import json
import threading
import time

import recipes

DEFAULT = {"rate": 10}
settings = DEFAULT


def follow(value: recipes.Value) -> None:
    """Keep `settings` as they are in the store, until the client is closed."""
    global settings
    with contextlib.suppress(recipes.ClientClosed):
        for found in value.changes():
            settings = DEFAULT if found is None else json.loads(found.data)
            print("from now on:", settings)


with recipes.connect("sqlite://./locks.db") as client:
    following = threading.Thread(target=follow, args=(client.value("settings"),))
    following.start()

    # By any process, or: recipes set settings '{"rate": 25}'
    client.value("settings").set(b'{"rate": 25}')

    while settings["rate"] != 25:  # in a service: its work
        time.sleep(0.05)
following.join()
