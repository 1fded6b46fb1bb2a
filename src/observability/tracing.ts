/** What is told of a piece of work. Never a key, a header that the client sent, or a value of its data. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** One piece of work within a trace. */
export interface Span {
  readonly traceId: string;
  /** False when the trace was not chosen to be recorded: whatever is started under it is not recorded either. */
  readonly isRecording: boolean;
  /** The headers with which another service continues the trace: https://www.w3.org/TR/trace-context/ */
  readonly headers: Readonly<Record<string, string>>;
  /** Starts a part of this work: a call to another server is `client`, anything else `internal`. */
  startChild(kind: 'client' | 'internal', name: string, attributes?: Attributes): Span;
  /** Says that others have asked for this work too. */
  link(others: readonly Span[]): void;
  /** This span as the parent of work that others have asked for too: what is started under it is linked to them. */
  sharedWith(others: readonly Span[]): Span;
  rename(name: string): void;
  /** @param error - what kind of failure it ended with; absent: with none */
  end(attributes?: Attributes, error?: string): void;
}

/** Where spans come from. Without tracing there is none, and so there are no spans. */
export interface Tracing {
  /** Starts the span of a request that has come, in the client's trace if its headers name one. */
  startServerSpan(headers: Readonly<Record<string, string | string[] | undefined>>): Span;
  /** Hands over what has been recorded, within the time given, in milliseconds. */
  close(timeoutMs: number): Promise<void>;
}

/**
 * The parent of work that is done once for several requests: the span of the first that is recorded, with links to those of the
 * others.
 * @param spans - one or more, of which some may be the same
 */
export function joinSpans(spans: readonly Span[]): Span {
  const recorded = [...new Set(spans.filter(({ isRecording }) => isRecording))];
  const [first, ...others] = recorded;
  if (!first) return spans[0] as Span;
  return others.length === 0 ? first : first.sharedWith(others);
}
