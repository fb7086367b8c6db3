import asyncio

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import recipes
from recipes import telemetry

spans = InMemorySpanExporter()  # in a service: your exporter
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
stop = telemetry.otel_spans(provider)
tracer = provider.get_tracer("reports")


async def report(client: recipes.AsyncClient) -> None:
    with tracer.start_as_current_span("report"):
        async with client.lock("reports/nightly"):
            await asyncio.sleep(0.1)


async def main() -> None:
    async with recipes.connect_async("etcd://127.0.0.1:2379/app") as client:
        await asyncio.gather(report(client), report(client))


asyncio.run(main())
stop()
for span in spans.get_finished_spans():
    if span.name == "lock.acquire":
        print(
            span.name,
            span.attributes["recipes.outcome"],
            "after",
            len(span.links),
            "other holder(s)",
        )
