import json

import recipes

AMOUNTS = [5, 10, 20, 40]  # what to add up: the lines of a file, for example


def add_up(progress: recipes.Value) -> int:
    """Add up all amounts, each once, even if it is interrupted and started again."""
    while True:
        found = progress.get()
        done, total = (0, 0) if found is None else json.loads(found.data)
        if done == len(AMOUNTS):
            return total
        data = json.dumps([done + 1, total + AMOUNTS[done]]).encode()
        # False if another process was faster:
        progress.set_if(data, 0 if found is None else found.version)


with recipes.connect("sqlite://./locks.db") as client:
    print("the total is", add_up(client.value("import/progress")))
    print("and again:", add_up(client.value("import/progress")))
