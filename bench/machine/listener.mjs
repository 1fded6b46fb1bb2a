import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { HAS_PROC } from './cores.mjs';

const LOOPBACK = '0100007F';
const LISTENING = '0A';

/** The inode of the socket that listens on a loopback port; undefined when there is none. */
function listeningInode(port) {
  const local = `${LOOPBACK}:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  for (const line of readFileSync('/proc/net/tcp', 'latin1').split('\n').slice(1)) {
    const [, address, , state, , , , , , inode] = line.trim().split(/\s+/);
    if (address === local && state === LISTENING) return inode;
  }
  return undefined;
}

function holdsSocket(pid, inode) {
  const wanted = `socket:[${inode}]`;
  return readdirSync(`/proc/${pid}/fd`).some((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`) === wanted;
    } catch {
      return false;
    }
  });
}

/**
 * Whether the process listens on the port.
 * @throws when another process does: then every figure would be somebody else's
 */
export async function listensOn(pid, port) {
  if (!HAS_PROC) return canConnect(port);
  const inode = listeningInode(port);
  if (inode === undefined) return false;
  if (!holdsSocket(pid, inode)) throw new Error(`port ${port} is listened on by a process other than ${pid}`);
  return true;
}

function canConnect(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => socket.destroy() && resolve(true)).once('error', () => resolve(false));
  });
}

export async function findFreePort() {
  const server = createServer();
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}
