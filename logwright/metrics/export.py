"""Hand metrics over to Prometheus: as text, as a file for node_exporter, or over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from logwright.metrics.names import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from threading import Thread
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from logwright.metrics.values import Sample

    Values = Mapping[str, Sequence[Sample]]


def families(values: Values) -> list[Metric]:
    """Return the metric families of these samples; a metric without samples has none."""
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 -- of an extra

    metrics: list[Metric] = []
    for metric in METRICS:
        samples = values.get(metric.name, ())
        if samples:
            family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
            for labels, value in samples:
                family.add_metric(labels, value)
            metrics.append(family)
    return metrics


def registry_of(read: Callable[[], Values]) -> CollectorRegistry:
    """Return a registry that reads the values each time it is collected."""
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 -- of an extra
    from prometheus_client.registry import Collector  # noqa: PLC0415

    class FleetCollector(Collector):
        """Collects what `read` returns."""

        def collect(self) -> Iterable[Metric]:
            """Return the families. Effects: those of `read`."""
            return families(read())

        def describe(self) -> Iterable[Metric]:
            """Return nothing, so that registering reads nothing."""
            return ()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(FleetCollector())
    return registry


def text_of(values: Values) -> str:
    """Return the metrics in Prometheus' text format."""
    from prometheus_client import generate_latest  # noqa: PLC0415 -- of an extra

    return generate_latest(registry_of(lambda: values)).decode()


def write_metrics(values: Values, path: Path) -> None:
    """Write a file for node_exporter's textfile collector. Effects: replaces it atomically.

    Raises:
        OSError: it cannot be written.
    """
    from prometheus_client import write_to_textfile  # noqa: PLC0415 -- of an extra

    write_to_textfile(str(path), registry_of(lambda: values))


def serve_metrics(
    read: Callable[[], Values], *, address: str, port: int
) -> tuple[WSGIServer, Thread]:
    """Serve the metrics over HTTP, read again for each request; 0: any free port. Effects: listens;
    a thread.

    Raises:
        OSError: the port is not free.
    """
    from prometheus_client import start_http_server  # noqa: PLC0415 -- of an extra

    return start_http_server(port, addr=address, registry=registry_of(read))
