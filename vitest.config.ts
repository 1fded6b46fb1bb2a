import { defineConfig } from 'vitest/config';

export default defineConfig({
  // Node takes the CommonJS entry of graphql and Vite would take the other: two copies refuse each other's schemas.
  resolve: { alias: [{ find: /^graphql$/, replacement: 'graphql/index.js' }] },
  test: {
    include: ['test/**/*.test.ts', 'packages/*/test/**/*.test.ts'],
    globalSetup: ['test/support/postgres-server.ts', 'test/support/redis-server.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Each file starts servers of its own; more at once than there are cores only makes them wait for each other.
    maxWorkers: 2,
  },
});
