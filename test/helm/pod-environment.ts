import type { Container, KubernetesObject } from './chart.ts';

interface Source {
  readonly secretKeyRef?: { readonly name: string; readonly key: string };
  readonly fieldRef?: { readonly fieldPath: string };
}

export interface Pod {
  /** Objects of the release; their Secrets take precedence. */
  readonly objects: readonly KubernetesObject[];
  /** The content of a Secret of the user. */
  secret(name: string, key: string): string;
  readonly ip: string;
}

/** The variables of a container, with Secrets, the address of its pod and `$(NAME)` resolved as the kubelet does. */
export function environmentOf({ env = [] }: Container, { objects, secret, ip }: Pod): Record<string, string> {
  const values: Record<string, string> = {};
  for (const { name, value, valueFrom } of env) {
    const { secretKeyRef, fieldRef } = (valueFrom ?? {}) as Source;
    if (secretKeyRef !== undefined) {
      const made = objects.find(
        ({ kind, metadata }) => kind === 'Secret' && metadata.name === secretKeyRef.name,
      );
      values[name] = made?.stringData?.[secretKeyRef.key] ?? secret(secretKeyRef.name, secretKeyRef.key);
    } else if (fieldRef?.fieldPath === 'status.podIP') values[name] = ip;
    else
      values[name] = (value ?? '').replace(/\$\((\w+)\)/g, (whole, other: string) => values[other] ?? whole);
  }
  return values;
}
