import type { ToolClass } from '@holdfast/run';
import type { ServerRules, UpstreamTool } from './server-catalogue.js';

/**
 * What the hints of an upstream's tool and the rules of its operator come to (BEHAVIOURS 109-112, X3,
 * R13). A hint that is not a boolean is no hint.
 */
export type HintedTool = Pick<UpstreamTool, 'name' | 'annotations'>;

type ClassRules = Pick<ServerRules, 'overrides' | 'trustHints'>;

/** An override decides; then hints, where they are trusted. Who claims to read and to destroy, writes. */
export function classOf(tool: HintedTool, rules: ClassRules): ToolClass {
  const override = overrideOf(tool, rules);
  if (override !== undefined) return override;
  return rules.trustHints && hints(tool, 'readOnlyHint') && !hints(tool, 'destructiveHint')
    ? 'read'
    : 'write';
}

/** Whether a call may be sent again when its outcome is not known. */
export function isResendable(tool: HintedTool, rules: ClassRules): boolean {
  return classOf(tool, rules) === 'read' || isIdempotent(tool, rules);
}

/** Whether somebody must be asked before a live call, and because of what. */
export type ApprovalNeed =
  | { readonly asks: false }
  | {
      readonly asks: true;
      /** The operator named the tool; it claims to destroy; or the mode asks for tools like it. */
      readonly why: 'listed' | 'destructive' | 'mode';
    };

/** The permission table (BEHAVIOURS §4g, 168, X6), from the most restrictive row down. */
export function needsApproval(
  tool: HintedTool,
  rules: ClassRules & Pick<ServerRules, 'requiresApproval' | 'autoApprove' | 'approvalMode'>,
): ApprovalNeed {
  if (rules.requiresApproval.includes(tool.name)) return { asks: true, why: 'listed' };
  if (hints(tool, 'destructiveHint')) return { asks: true, why: 'destructive' };
  if (rules.approvalMode === 'guarded' || rules.autoApprove.includes(tool.name)) return { asks: false };
  if (rules.approvalMode !== 'ask' && classOf(tool, rules) === 'read') return { asks: false };
  return { asks: true, why: 'mode' };
}

/** Whether the operator's filters let a tool through, by its bare name (BEHAVIOURS 96, R12). */
export function isOffered(name: string, { allow, deny }: Pick<ServerRules, 'allow' | 'deny'>): boolean {
  if (allow !== undefined) return allow.includes(name);
  return deny === undefined || !deny.includes(name);
}

/**
 * What a host is told of a tool: the hints as we classify it, never the upstream's (BEHAVIOURS 28), and its title and
 * the annotations that no revision of MCP knows as they came.
 */
export interface ListedAnnotations {
  readonly readOnlyHint: boolean;
  readonly destructiveHint?: true;
  readonly idempotentHint?: true;
  readonly [annotation: string]: unknown;
}

const hintNames: ReadonlySet<string> = new Set([
  'readOnlyHint',
  'destructiveHint',
  'idempotentHint',
  'openWorldHint',
]);

export function listedAnnotations(tool: HintedTool, rules: ClassRules): ListedAnnotations {
  const others = Object.entries(tool.annotations ?? {}).filter(
    ([name, value]) => !hintNames.has(name) && (name !== 'title' || typeof value === 'string'),
  );
  return {
    ...Object.fromEntries(others),
    readOnlyHint: classOf(tool, rules) === 'read',
    ...(hints(tool, 'destructiveHint') && { destructiveHint: true }),
    ...(isIdempotent(tool, rules) && { idempotentHint: true }),
  };
}

/** Hints that loosen what may be done with a tool, and those that tighten it. */
const loosening = ['readOnlyHint', 'idempotentHint'] as const;
const tightening = ['destructiveHint'] as const;

/**
 * A tool with the stricter of the hints that it publishes now and those that it was known by: a server that
 * changes its mind does not make a write a read that may be sent again. The operator's overrides can.
 */
export function heldToHints<Tool extends HintedTool>(tool: Tool, known: HintedTool | undefined): Tool {
  if (known === undefined) return tool;
  const held = [
    ...loosening.filter((hint) => hints(tool, hint) && !hints(known, hint)).map((hint) => [hint, false]),
    ...tightening.filter((hint) => !hints(tool, hint) && hints(known, hint)).map((hint) => [hint, true]),
  ];
  return held.length === 0
    ? tool
    : { ...tool, annotations: { ...tool.annotations, ...(Object.fromEntries(held) as object) } };
}

/** The hints of a tool that decide something, without what else its annotations say. */
export function hintsAmong(annotations: HintedTool['annotations'] = {}): Record<string, boolean> {
  const set = [...loosening, ...tightening].filter((hint) => hints({ name: '', annotations }, hint));
  return Object.fromEntries(set.map((hint) => [hint, true]));
}

function isIdempotent(tool: HintedTool, rules: ClassRules): boolean {
  return rules.trustHints && hints(tool, 'idempotentHint') && overrideOf(tool, rules) !== 'write';
}

function overrideOf({ name }: HintedTool, { overrides }: ClassRules): ToolClass | undefined {
  return Object.hasOwn(overrides, name) ? overrides[name] : undefined;
}

function hints({ annotations }: HintedTool, hint: string): boolean {
  return annotations !== undefined && Object.hasOwn(annotations, hint) && annotations[hint] === true;
}
