/**
 * Types of packages that are installed only beside these tests. The type checker of the repository runs without the
 * packages, so this file declares the used parts.
 */
const from = (name: string): Promise<unknown> => import(name);

export interface YamlNode {
  readonly commentBefore?: string | null;
  toJSON(): unknown;
}

export interface YamlPair {
  readonly key: YamlNode & { readonly value: string };
  readonly value: YamlNode;
}

export interface YamlMap extends YamlNode {
  readonly items: readonly YamlPair[];
}

export interface YamlDocument {
  readonly errors: readonly Error[];
  readonly contents: YamlNode | null;
  toJS(): unknown;
}

export const { isMap, parse, parseAllDocuments, parseDocument } = (await from('yaml')) as {
  isMap(node: unknown): node is YamlMap;
  parse(text: string): unknown;
  parseAllDocuments(text: string): readonly YamlDocument[];
  parseDocument(text: string): YamlDocument;
};

/** A node of a parsed PromQL expression. */
export interface PromNode {
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly type: { readonly isError: boolean };
}

export const { parser: promql } = (await from('@prometheus-io/lezer-promql')) as {
  parser: { parse(text: string): { iterate(spec: { enter(node: PromNode): void }): void } };
};

/** Creates and applies the unified difference of two texts. */
export const { createTwoFilesPatch, applyPatch } = (await from('diff')) as {
  createTwoFilesPatch(
    oldName: string,
    newName: string,
    oldText: string,
    newText: string,
    oldHeader?: string,
    newHeader?: string,
    options?: { readonly context: number },
  ): string;
  applyPatch(text: string, patch: string): string | false;
};
