import json
from typing import Any

import recipes


def change(value: recipes.Value, **new: Any) -> None:
    """Change some of the settings, and leave the others as they are."""
    while True:
        found = value.get()
        settings = {} if found is None else json.loads(found.data)
        data = json.dumps(settings | new).encode()
        if value.set_if(data, 0 if found is None else found.version):
            return


with recipes.connect("sqlite://./locks.db") as client:
    settings = client.value("settings")
    change(settings, rate=25)
    change(settings, burst=100)
    print(settings.get().data.decode())
