import structlog

import recipes
from recipes import events

logfmt = structlog.processors.LogfmtRenderer()
structlog.configure(processors=[structlog.processors.add_log_level, logfmt])
events.configure(level="info")  # no line for each lock that is acquired and released

with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    with client.lock("reports/nightly"):
        print("the lock is held, and nothing is logged")
