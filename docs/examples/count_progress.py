import json

import recipes

AMOUNTS = [5, 10, 20, 40]  # what is to be added up: the lines of a file, say


def add_up(progress: recipes.Value) -> int:
    """Add up all amounts, each once, however often this is started, and wherever it was interrupted."""
    while True:
        found = progress.get()
        done, total = (0, 0) if found is None else json.loads(found.data)
        if done == len(AMOUNTS):
            return total
        data = json.dumps([done + 1, total + AMOUNTS[done]]).encode()
        progress.set_if(data, 0 if found is None else found.version)  # False: another process was quicker


with recipes.connect("sqlite://./locks.db") as client:
    print("the total is", add_up(client.value("import/progress")))
    print("and again:", add_up(client.value("import/progress")))
