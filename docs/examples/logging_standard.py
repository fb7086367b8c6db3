import logging
import sys

import recipes

FORMAT = "%(asctime)s %(levelname)s %(message)s (%(filename)s:%(lineno)d)"
logging.basicConfig(stream=sys.stdout, format=FORMAT)
logging.getLogger("recipes").setLevel(logging.DEBUG)


class Tokens(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # the fields are attributes of the record
        if token := getattr(record, "token", None):
            print("the lock", getattr(record, "recipe_name", ""), "has token", token)


logging.getLogger("recipes").addHandler(Tokens())

with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    with client.lock("reports/nightly"):
        pass
