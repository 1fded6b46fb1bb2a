import * as apps from 'kubernetes-models/apps/v1';
import * as autoscaling from 'kubernetes-models/autoscaling/v2';
import * as networking from 'kubernetes-models/networking.k8s.io/v1';
import * as policy from 'kubernetes-models/policy/v1';
import * as batch from 'kubernetes-models/batch/v1';
import * as core from 'kubernetes-models/v1';

type Model = new (content: object) => { validate(): void };

const GROUPS: Record<string, object> = {
  v1: core,
  'apps/v1': apps,
  'autoscaling/v2': autoscaling,
  'batch/v1': batch,
  'networking.k8s.io/v1': networking,
  'policy/v1': policy,
};

/**
 * Checks a manifest against the schemas of the Kubernetes API.
 * @returns one line for each error
 */
export function checkManifest(manifest: { apiVersion?: unknown; kind?: unknown }): string[] {
  const { apiVersion, kind } = manifest;
  const KindOfModel = (GROUPS[String(apiVersion)] as Record<string, Model> | undefined)?.[String(kind)];
  if (KindOfModel === undefined) return [`${String(apiVersion)} ${String(kind)} has no schema`];
  const watched = watch(new KindOfModel(manifest));
  try {
    watched.value.validate();
  } catch (error) {
    return [(error as Error).message];
  }
  return watched.unread().map((path) => `${path} is no property of ${String(kind)}`);
}

/**
 * Records which properties are read. The schemas allow unknown properties, such as a misspelt one, but the validation
 * never reads those.
 */
function watch<T extends object>(content: T, path = ''): { value: T; unread: () => string[] } {
  const parts = new Map<string, ReturnType<typeof watch>>();
  const read = new Set<string>();
  const value = new Proxy(content, {
    get(target, name, receiver) {
      const part: unknown = Reflect.get(target, name, receiver);
      if (typeof name === 'symbol' || !Object.hasOwn(target, name)) return part;
      read.add(name);
      if (typeof part !== 'object' || part === null) return part;
      const known = parts.get(name) ?? watch(part, `${path}/${name}`);
      parts.set(name, known);
      return known.value;
    },
  });
  const unread = (): string[] => [
    ...Object.keys(content)
      .filter((name) => !read.has(name))
      .map((name) => `${path}/${name}`),
    ...[...parts.values()].flatMap((part) => part.unread()),
  ];
  return { value, unread };
}
