import { randomBytes } from 'node:crypto';
import { createServer, connect, type AddressInfo, type Server, type Socket } from 'node:net';

/**
 * The modes of a fault proxy.
 * - `pass`: forwards data in both directions.
 * - `stall`: accepts connections and holds back all data until `pass`, like a stopped server or a slow network.
 * - `blackhole`: accepts connections and drops all data, even the end of a connection. Open connections stay silent for
 *   good, as behind a firewall that has lost its state; `pass` applies only to new ones.
 * - `reset`: resets new connections, and open ones at once.
 * - `refuse`: closes all connections and stops listening, like a server that has exited.
 * - `garbage`: sends random bytes in response to all data. The next mode resets the connections that received them.
 *
 * A process cannot drop packets, so in `blackhole` the kernel still completes the handshake and acknowledges what it
 * receives. The peer sees a silent connection in either case, and gives up after its own timeouts.
 */
export type FaultMode = 'pass' | 'stall' | 'blackhole' | 'reset' | 'refuse' | 'garbage';

/** A TCP proxy on 127.0.0.1 in front of a real server. A test can make it fail. */
export interface FaultProxy {
  /** Does not change when the mode changes. */
  readonly port: number;
  readonly mode: FaultMode;
  /** The number of open client connections. */
  readonly connections: number;
  /** The number of client connections accepted so far. */
  readonly accepted: number;
  /** Switches the mode of open connections and new ones. */
  set(mode: FaultMode): Promise<void>;
  close(): Promise<void>;
}

/** Starts a fault proxy, in mode `pass`. */
export async function startFaultProxy(target: { readonly host?: string; readonly port: number }): Promise<FaultProxy> {
  let mode: FaultMode = 'pass';
  let accepted = 0;
  const links = new Set<Link>();
  const server = createServer({ allowHalfOpen: true }, (client) => {
    accepted += 1;
    const link = new Link(client, target, () => links.delete(link));
    links.add(link);
    link.enter(mode);
  });
  await listen(server, 0);
  const { port } = server.address() as AddressInfo;

  async function set(next: FaultMode): Promise<void> {
    mode = next;
    if (next === 'refuse') await stopListening();
    else if (!server.listening) await listen(server, port);
    for (const link of [...links]) link.enter(next);
  }

  function stopListening(): Promise<void> {
    for (const link of [...links]) link.end();
    return new Promise((closed) => {
      if (server.listening) server.close(() => closed());
      else closed();
    });
  }

  return {
    port,
    get mode() {
      return mode;
    },
    get connections() {
      return links.size;
    },
    get accepted() {
      return accepted;
    },
    set,
    close: stopListening,
  };
}

/** A client connection with its connection to the server. */
class Link {
  private mode: FaultMode = 'stall';
  private upstream: Socket | undefined;
  /** True after data was lost or invented: the connection stays unusable. */
  private isSpoilt = false;

  constructor(
    private readonly client: Socket,
    private readonly target: { readonly host?: string; readonly port: number },
    private readonly onClose: () => void,
  ) {
    client.pause();
    this.forward(client, () => this.upstream);
  }

  enter(mode: FaultMode): void {
    if (this.mode === 'garbage' && mode !== 'garbage') this.reset();
    this.mode = mode;
    if (mode === 'reset') this.reset();
    else if (mode === 'stall') this.pause();
    else if (mode === 'pass' && !this.isSpoilt) this.connect();
    else this.isSpoilt = true;
    if (mode !== 'stall') this.resume();
  }

  end(): void {
    this.client.destroy();
    this.upstream?.destroy();
  }

  private reset(): void {
    this.client.resetAndDestroy();
    this.upstream?.resetAndDestroy();
  }

  private connect(): void {
    if (this.upstream) return;
    this.upstream = connect({ host: this.target.host ?? '127.0.0.1', port: this.target.port, allowHalfOpen: true });
    this.forward(this.upstream, () => this.client);
  }

  private pause(): void {
    this.client.pause();
    this.upstream?.pause();
  }

  private resume(): void {
    this.client.resume();
    this.upstream?.resume();
  }

  private forward(from: Socket, to: () => Socket | undefined): void {
    from.setNoDelay(true);
    from.on('data', (chunk) => {
      if (this.mode === 'garbage' && from === this.client) from.write(randomBytes(256));
      if (this.isSpoilt) return;
      const target = to();
      if (target?.write(chunk) !== false) return;
      from.pause();
      target.once('drain', () => {
        if (this.mode !== 'stall') from.resume();
      });
    });
    from.on('end', () => {
      if (!this.isSpoilt) to()?.end();
    });
    from.on('error', () => {
      if (!this.isSpoilt) to()?.resetAndDestroy();
    });
    from.on('close', () => {
      if (from === this.client) this.onClose();
      if (!this.isSpoilt || from === this.client) to()?.destroy();
    });
  }
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
}
