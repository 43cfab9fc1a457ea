"""/metrics: our own numbers, the engines' and OpenTelemetry's names for them (docs/metrics.md)."""

from pdctl.api.exposition.route import router

__all__ = ["router"]
