import { collectDefaultMetrics, Counter, type Registry } from 'prom-client';
import { readPackage } from './package.js';
import type { Instruments } from './prometheus.js';

/** Registers the metrics of the process: memory, CPU, event loop, garbage collection and the version of the program. */
export function registerProcessMetrics(registry: Registry, { labelledGauge }: Instruments): void {
  collectDefaultMetrics({ register: registry });
  // Gauges that Prometheus would take for counters, because of their names. The sums over `type` are the same.
  for (const what of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${what}_total`);
  new Counter({
    name: 'nodejs_eventloop_time_seconds_total',
    help: 'Time that the event loop was active, and idle',
    labelNames: ['nodejs_eventloop_state'],
    registers: [registry],
    collect() {
      const { active, idle } = performance.eventLoopUtilization();
      this.reset();
      this.inc({ nodejs_eventloop_state: 'active' }, active / 1_000);
      this.inc({ nodejs_eventloop_state: 'idle' }, idle / 1_000);
    },
  });
  // The labels are the resource's attributes:
  // https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
  const build = {
    service_name: 'animal-store-gateway',
    service_version: readPackage().version,
    process_runtime_name: 'nodejs',
    process_runtime_version: process.versions.node,
  };
  labelledGauge('target_info', 'Build info: the version of the program and of Node; always 1', [[build, () => 1]]);
}
