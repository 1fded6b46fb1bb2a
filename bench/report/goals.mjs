import { ratio } from './statistics.mjs';

const perSecond = (figures) => figures.perSecond;
const p50 = (figures) => figures.p50;
const p99 = (figures) => figures.p99;

const faster = (mode, works, peer, goal, least, connections = 32) => ({
  mode,
  works,
  peer,
  connections,
  figure: perSecond,
  goal,
  least,
  name: 'requests a second',
});

/** What the program has to show, from the issue. Ratios of this program to the peer. */
const GOALS = [
  faster('store', ['W1'], 'mercurius', 2, 1.2),
  faster('store', ['W1'], 'apollo', 5, 3),
  faster('store', ['W1'], 'bare', 1.5, 1),
  faster('store', ['W1v', 'W2'], 'mercurius', 1.15, 0.95),
  faster('store', ['W3'], 'mercurius', 1.1, 0.85),
  faster('store', ['W3'], 'apollo', 12, 8),
  faster('store', ['W4'], 'mercurius', 1.2, 0.95),
  faster('store', ['W5', 'W6'], 'mercurius', 1.2, 0.95),
  {
    mode: 'store',
    works: ['W1'],
    peer: 'apollo',
    connections: 1,
    figure: p50,
    goal: 0.5,
    least: 0.7,
    isLower: true,
    name: 'median latency',
  },
  faster('proxy', ['W1', 'W3'], 'mercurius', 1.3, 1),
  faster('proxy', ['W1', 'W3'], 'hive', 15, 8),
  faster('store', ['W1', 'W5'], 'ours-plain', 0.95, 0.88),
  {
    mode: 'store',
    works: ['W1'],
    peer: 'mercurius',
    connections: 32,
    figure: p99,
    goal: 0.8,
    least: 1.2,
    isLower: true,
    name: 'p99',
  },
];

/** What the goals of a mode and work compare: the servers, this program first, and the numbers of connections; none without goals. */
export function comparedFor(mode, work) {
  const goals = GOALS.filter((goal) => goal.mode === mode && goal.works.includes(work));
  const peers = [...new Set(goals.map(({ peer }) => peer))];
  return {
    names: peers.length === 0 ? [] : ['ours', ...peers],
    connections: [...new Set(goals.map(({ connections }) => connections))].sort((a, b) => a - b),
  };
}

/** The goals that this run can say something about. */
export function judge(results) {
  return GOALS.flatMap(({ works, ...goal }) =>
    works.flatMap((work) => {
      const result = results.find((one) => one.mode === goal.mode && one.work === work);
      const ours = result?.servers.get('ours')?.byConnections.get(goal.connections);
      const peers = result?.servers.get(goal.peer)?.byConnections.get(goal.connections);
      if (!ours?.length || !peers?.length) return [];
      const measured = ratio(ours, peers, goal.figure);
      const reaches = (bar) => (goal.isLower ? measured.median <= bar : measured.median >= bar);
      const verdict = reaches(goal.goal) ? 'goal' : reaches(goal.least) ? 'enough' : 'MISSED';
      return [{ ...goal, work, measured, verdict }];
    }),
  );
}
