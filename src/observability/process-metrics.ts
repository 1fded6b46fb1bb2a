import { collectDefaultMetrics, Counter, Gauge, type Registry } from 'prom-client';
import { readPackageVersion } from './package-version.js';

/** Registers the metrics of the process: memory, CPU, event loop, garbage collection and the version of the program. */
export function registerProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry });
  const loop = new Counter({
    name: 'nodejs_eventloop_time_seconds_total',
    help: 'Time that the event loop was active, and idle',
    labelNames: ['nodejs_eventloop_state'],
    registers: [registry],
    collect() {
      const { active, idle } = performance.eventLoopUtilization();
      loop.reset();
      loop.inc({ nodejs_eventloop_state: 'active' }, active / 1_000);
      loop.inc({ nodejs_eventloop_state: 'idle' }, idle / 1_000);
    },
  });
  // This metric has the attributes of the resource as labels: https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
  const build = {
    service_name: 'animal-store-gateway',
    service_version: readPackageVersion(),
    process_runtime_name: 'nodejs',
    process_runtime_version: process.versions.node,
  };
  new Gauge({
    name: 'target_info',
    help: 'Build info: the version of the program and of Node; always 1',
    labelNames: Object.keys(build),
    registers: [registry],
  }).set(build, 1);
}
