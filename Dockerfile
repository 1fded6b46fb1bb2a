# An LTS release of Node. The program runs on 20.19 and later.
FROM node:24.21.0-trixie-slim@sha256:8ec5d7557396cfe32d21c3f9c13072355ceab22b584578ca4bb28af31120cffe AS base

FROM base AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json vite.config.ts README.md ./
COPY scripts scripts
COPY docs docs
COPY schema schema
COPY src src
COPY pages pages
# The explorer uses one of its files.
COPY packages/client/src packages/client/src
RUN npm run build && npm prune --omit=dev --ignore-scripts --no-audit --no-fund

FROM base
ENV NODE_ENV=production HOST=0.0.0.0 PORT=4000 METRICS_PORT=9464
WORKDIR /app
# For the embedded store and for counters without Redis, writable for any user. With DATABASE_URL and REDIS_URL, the
# program writes no files.
RUN mkdir -m 1777 .data
COPY package.json README.md ./
COPY docs docs
COPY migrations migrations
COPY schema schema
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
# The image's user "node", by number, so that a runtime can verify that it is not root.
USER 1000:1000
EXPOSE 4000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/livez`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# No shell and no init: the program handles signals itself and starts no other process.
CMD ["node", "--max-semi-space-size=32", "dist/main.js"]
