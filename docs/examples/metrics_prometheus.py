from prometheus_client import generate_latest

import recipes
from recipes import telemetry

stop = telemetry.prometheus(name_label=lambda name: name.partition("/")[0])

with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    with client.lock("reports/nightly"):
        pass

# In a service: prometheus_client.start_http_server(8000)
for line in generate_latest().decode().splitlines():
    if line.startswith("recipes_lock_acquire_duration_seconds_count"):
        print(line)

stop()
