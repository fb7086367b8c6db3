from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import recipes
from recipes import telemetry

reader = InMemoryMetricReader()  # in a service: PeriodicExportingMetricReader
provider = MeterProvider([reader])
stop = telemetry.otel_metrics(provider)  # without an argument: the global one

with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    with client.lock("reports/nightly"):
        pass

for resource in reader.get_metrics_data().resource_metrics:
    for scope in resource.scope_metrics:
        for metric in scope.metrics:
            print(metric.name, metric.unit)

stop()
provider.shutdown()
