import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { bundleInto } from '../../scripts/build-bundle.mjs';
import { launchHive } from './hive.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

const store = ({ databaseUrl, pool }) => ({ DATABASE_URL: databaseUrl, DATABASE_POOL: String(pool) });
const backend = (cell) => (cell.mode === 'proxy' ? { UPSTREAM_URL: cell.upstreamUrl } : store(cell));
const peer = (file, env) => (cell) => ({
  args: [...cell.flags, here(`../peers/${file}`)],
  env: { ...backend(cell), ...env },
});

/** What `npm start` runs; builds to compare with may be of the time before there was a bundle. */
const programOf = (root) => [`${root}/dist/bundle/main.js`, `${root}/dist/main.js`].find((file) => existsSync(file));

/** This program, from a build, with everything on: keys, limits, metrics, and a JSON log line a request into a file. */
const ours =
  (env = {}) =>
  (cell) => ({
    args: [...cell.flags, programOf(cell.root)],
    env: { ...backend(cell), ...env },
  });

/** A program of `plain.mjs` and the modules of the build, bundled as that is. */
function plain(cell) {
  bundleInto(`${cell.root}/dist/bundle`, { plain: here('plain.mjs') }, { program: `${cell.root}/dist` });
  return { args: [...cell.flags, `${cell.root}/dist/bundle/plain.js`], env: backend(cell) };
}

/**
 * Every server that can be measured. `launch(cell)` gives the arguments of node and the environment, where the cell is
 * `{ mode, root, flags, pool, databaseUrl, upstreamUrl, directory, core }`.
 */
export const SERVERS = {
  ours: { title: 'this program', modes: ['store', 'proxy'], dialect: 'animalStore', launch: ours() },
  against: { title: 'the other build', modes: ['store', 'proxy'], dialect: 'animalStore', launch: ours() },
  'ours-silent': {
    title: 'this program, LOG_LEVEL=silent',
    modes: ['store', 'proxy'],
    dialect: 'animalStore',
    launch: ours({ LOG_LEVEL: 'silent' }),
  },
  'ours-plain': {
    title: 'this program without auth, limits, log, metrics',
    modes: ['store'],
    dialect: 'animalStore',
    isKeyUnknown: true,
    isOptional: true,
    hint: 'this build does not take AppParts.access and AppParts.metrics',
    launch: plain,
  },
  bare: {
    title: 'bare node:http, one SQL a request',
    modes: ['store', 'proxy'],
    dialect: 'animalStore',
    launch: peer('bare.mjs'),
  },
  mercurius: {
    title: 'mercurius with jit on Fastify',
    modes: ['store', 'proxy'],
    dialect: 'animalStore',
    launch: peer('mercurius.mjs'),
  },
  'mercurius-loaders': {
    title: 'mercurius with jit, its own loaders',
    modes: ['store', 'proxy'],
    dialect: 'animalStore',
    launch: peer('mercurius.mjs', { MERCURIUS_LOADERS: 'true' }),
  },
  apollo: {
    title: 'Apollo standalone',
    modes: ['store', 'proxy'],
    dialect: 'animalStore',
    launch: peer('apollo.mjs'),
  },
  yoga: { title: 'graphql-yoga', modes: ['store', 'proxy'], dialect: 'animalStore', launch: peer('yoga.mjs') },
  postgraphile: {
    title: 'PostGraphile 5',
    modes: ['store'],
    dialect: 'postgraphile',
    launch: peer('postgraphile.mjs', { GRAPHILE_ENV: 'production' }),
  },
  hive: { title: 'Hive Gateway over OpenAPI', modes: ['proxy'], dialect: 'hive', launch: launchHive },
  ceiling: {
    title: 'the load generator alone (lists from memory)',
    modes: ['store'],
    dialect: 'animalStore',
    launch: ({ flags }) => ({ args: [...flags, here('ceiling.mjs')], env: {} }),
  },
};

/** Whom a run compares when nobody says. */
export const DEFAULT_SERVERS = {
  store: ['ours', 'ours-plain', 'bare', 'mercurius', 'apollo', 'yoga', 'postgraphile'],
  proxy: ['ours', 'bare', 'mercurius', 'hive'],
};
