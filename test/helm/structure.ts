import { join } from 'node:path';
import ts from 'typescript';
import type { KubernetesObject } from './chart.ts';

/** Package of the types of an API. */
const typesOf: Readonly<Record<string, string>> = {
  v1: 'kubernetes-models/v1',
  'apps/v1': 'kubernetes-models/apps/v1',
  'autoscaling/v2': 'kubernetes-models/autoscaling/v2',
  'networking.k8s.io/v1': 'kubernetes-models/networking.k8s.io/v1',
  'policy/v1': 'kubernetes-models/policy/v1',
  'gateway.networking.k8s.io/v1': '@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1',
  'keda.sh/v1alpha1': '@kubernetes-models/keda/keda.sh/v1alpha1',
  'monitoring.coreos.com/v1': '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1',
};

/** A model of the same packages, which knows enums, patterns and bounds. */
interface Model {
  validate(): void;
}

/**
 * The values of an object that the schema of its kind rejects, one line each: an enum, a pattern, a bound.
 * It ignores unknown fields; `structuralProblems` finds those.
 */
export async function valueProblems(objects: readonly KubernetesObject[]): Promise<string[]> {
  const problems: string[] = [];
  for (const object of objects) {
    const module = (await import(`${typesOf[object.apiVersion]}/${object.kind}`)) as Record<
      string,
      new (data: unknown) => Model
    >;
    try {
      new module[object.kind]!(object).validate();
    } catch (error) {
      problems.push(`${object.kind} ${object.metadata.name}: ${String(error)}`);
    }
  }
  return problems;
}

/**
 * The fields that the API server or an operator would reject or drop: missing, unknown or of a wrong type, one line
 * each. Objects are typed as literals of the interfaces of their kind, so that the compiler finds unknown fields at any
 * depth; the validators of the same package ignore them.
 */
export function structuralProblems(objects: readonly KubernetesObject[]): string[] {
  const file = join(import.meta.dirname, 'rendered.ts');
  const distinct = [...new Map(objects.map((object) => [JSON.stringify(object), object]))];
  const lines = distinct.map(([json, { apiVersion, kind }], index) => {
    const types = typesOf[apiVersion];
    if (types === undefined) throw new Error(`no types for ${apiVersion} ${kind}`);
    return `export const object${index}: import('${types}').I${kind} = ${json};`;
  });
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => path === file || fileExists(path);
  host.getSourceFile = (path, ...rest) =>
    path === file
      ? ts.createSourceFile(path, lines.join('\n'), ts.ScriptTarget.ES2022)
      : getSourceFile(path, ...rest);
  return ts.getPreEmitDiagnostics(ts.createProgram([file], options, host)).map((diagnostic) => {
    const line = diagnostic.file?.getLineAndCharacterOfPosition(diagnostic.start ?? 0).line ?? 0;
    const object = distinct[line]?.[1];
    const message = ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n');
    return `${object?.kind} ${object?.metadata.name}: ${message}`;
  });
}
