import { describe, expect, test } from '@jest/globals';
import {
  classOf,
  heldToHints,
  isOffered,
  isResendable,
  listedAnnotations,
  needsApproval,
  type HintedTool,
} from './classification.js';
import { defaultRules, type ApprovalMode, type ServerRules } from './server-catalogue.js';

const rulesWith = (change: Partial<ServerRules> = {}): ServerRules => ({ ...defaultRules, ...change });
const tool = (annotations?: Record<string, unknown>, name = 't'): HintedTool => ({
  name,
  ...(annotations && { annotations }),
});
const reads = { readOnlyHint: true };
const destroys = { destructiveHint: true };
const repeats = { idempotentHint: true };

describe('class, and whether it may be sent again (BEHAVIOURS 109, X3, R13)', () => {
  test.each<[string, Record<string, unknown> | undefined, Partial<ServerRules>, 'read' | 'write', boolean]>([
    ['no hints', undefined, {}, 'write', false],
    ['it reads', reads, {}, 'read', true],
    ['it does not read', { readOnlyHint: false }, {}, 'write', false],
    ['it reads and destroys', { ...reads, ...destroys }, {}, 'write', false],
    ['it repeats', repeats, {}, 'write', true],
    ['it reads, not trusted', reads, { trustHints: false }, 'write', false],
    ['it repeats, not trusted', repeats, { trustHints: false }, 'write', false],
    ['override read', undefined, { overrides: { t: 'read' } }, 'read', true],
    ['override read, not trusted', destroys, { overrides: { t: 'read' }, trustHints: false }, 'read', true],
    ['override write', { ...reads, ...repeats }, { overrides: { t: 'write' } }, 'write', false],
    ['override of another', reads, { overrides: { u: 'write' } }, 'read', true],
    ['a text for a hint (F83)', { readOnlyHint: 'true', idempotentHint: 1 }, {}, 'write', false],
  ])('%s', (_title, annotations, change, toolClass, mayRepeat) => {
    const rules = rulesWith(change);
    expect([classOf(tool(annotations), rules), isResendable(tool(annotations), rules)]).toEqual([
      toolClass,
      mayRepeat,
    ]);
  });

  test('a tool called constructor has no override that nobody gave', () => {
    expect(classOf(tool(reads, 'constructor'), rulesWith())).toBe('read');
  });
});

describe('the permission table (BEHAVIOURS §4g, 168)', () => {
  const modes: ApprovalMode[] = ['guarded', 'ask', 'allow-reads', 'allow-all'];
  test.each<[string, Record<string, unknown> | undefined, Partial<ServerRules>, (string | false)[]]>([
    ['it destroys', destroys, {}, ['destructive', 'destructive', 'destructive', 'destructive']],
    [
      'it destroys, in auto_approve',
      destroys,
      { autoApprove: ['t'] },
      ['destructive', 'destructive', 'destructive', 'destructive'],
    ],
    [
      'it destroys, override read',
      destroys,
      { overrides: { t: 'read' } },
      ['destructive', 'destructive', 'destructive', 'destructive'],
    ],
    [
      'it destroys, not trusted',
      destroys,
      { trustHints: false },
      ['destructive', 'destructive', 'destructive', 'destructive'],
    ],
    ['in auto_approve', undefined, { autoApprove: ['t'] }, [false, false, false, false]],
    ['it reads', reads, {}, [false, 'mode', false, false]],
    ['it reads, override write', reads, { overrides: { t: 'write' } }, [false, 'mode', 'mode', 'mode']],
    ['anything else', undefined, {}, [false, 'mode', 'mode', 'mode']],
    ['in requires_approval', reads, { requiresApproval: ['t'] }, ['listed', 'listed', 'listed', 'listed']],
    ['F83 no annotations', undefined, {}, [false, 'mode', 'mode', 'mode']],
    ['F83 empty annotations', {}, {}, [false, 'mode', 'mode', 'mode']],
    ['F83 a text for a hint', { readOnlyHint: 'true' }, {}, [false, 'mode', 'mode', 'mode']],
    [
      'F83 it reads and destroys',
      { ...reads, ...destroys },
      {},
      ['destructive', 'destructive', 'destructive', 'destructive'],
    ],
    ['F83 a text that claims to destroy', { destructiveHint: 'true' }, {}, [false, 'mode', 'mode', 'mode']],
  ])('%s', (_title, annotations, change, expected) => {
    // prettier-ignore
    const asked = modes.map((approvalMode) => {
      const need = needsApproval(tool(annotations), rulesWith({ ...change, approvalMode }));
      return need.asks && need.why;
    });
    expect(asked).toEqual(expected);
  });
});

test('filters go by the bare name (BEHAVIOURS 96)', () => {
  const names = ['a', 'b'];
  expect(names.map((name) => isOffered(name, {}))).toEqual([true, true]);
  expect(names.map((name) => isOffered(name, { allow: ['a'] }))).toEqual([true, false]);
  expect(names.map((name) => isOffered(name, { deny: ['a'] }))).toEqual([false, true]);
  expect(isOffered('a', { allow: [] })).toBe(false);
});

test('G56: hosts get the title and unknown annotations as they came', () => {
  const claims = { title: 'T', tone: { warm: [1] }, readOnlyHint: 'yes', openWorldHint: false };
  expect(listedAnnotations(tool(claims), rulesWith())).toEqual({
    title: 'T',
    tone: { warm: [1] },
    readOnlyHint: false,
  });
  expect(listedAnnotations(tool({ title: 7 }), rulesWith())).toEqual({ readOnlyHint: false });
  const evil = JSON.parse('{"__proto__":{"readOnlyHint":true}}') as Record<string, unknown>;
  expect(JSON.stringify(listedAnnotations(tool(evil), rulesWith()))).toBe(
    '{"__proto__":{"readOnlyHint":true},"readOnlyHint":false}',
  );
});

test('hosts are told our classification, not the words of the upstream (BEHAVIOURS 28)', () => {
  const claims = { ...reads, ...repeats, openWorldHint: true };
  expect(listedAnnotations(tool(claims), rulesWith())).toEqual({ readOnlyHint: true, idempotentHint: true });
  expect(listedAnnotations(tool(claims), rulesWith({ trustHints: false }))).toEqual({ readOnlyHint: false });
  expect(listedAnnotations(tool(claims), rulesWith({ overrides: { t: 'write' } }))).toEqual({
    readOnlyHint: false,
  });
  expect(listedAnnotations(tool(destroys), rulesWith({ overrides: { t: 'read' } }))).toEqual({
    readOnlyHint: true,
    destructiveHint: true,
  });
  expect(listedAnnotations(tool({ destructiveHint: 'yes' }), rulesWith())).toEqual({ readOnlyHint: false });
});

describe('G33: a tool is held to the stricter of its hints', () => {
  const withHints = (annotations: object | undefined) => ({
    name: 't',
    ...(annotations && { annotations: { ...annotations } }),
  });
  test.each([
    ['a write that claims to read', undefined, { readOnlyHint: true }, 'write', false],
    ['a write that claims to be idempotent', {}, { idempotentHint: true, title: 'T' }, 'write', false],
    ['a read that stays one', { readOnlyHint: true }, { readOnlyHint: true }, 'read', true],
    ['a read that becomes a write', { readOnlyHint: true }, {}, 'write', false],
    ['what is no hint', { readOnlyHint: 'true' }, { readOnlyHint: true }, 'write', false],
  ] as const)('%s', (_title, before, now, toolClass, resendable) => {
    const held = heldToHints(withHints(now), withHints(before));
    expect([classOf(held, defaultRules), isResendable(held, defaultRules)]).toEqual([toolClass, resendable]);
    // And for ever: what it was held to is what it is known by.
    const later = heldToHints(withHints({ readOnlyHint: true }), held);
    expect(classOf(later, defaultRules)).toBe(toolClass);
  });

  test('what claimed to destroy goes on to, an override decides, and a new tool is as it says', () => {
    const held = heldToHints(withHints({ readOnlyHint: true }), withHints({ destructiveHint: true }));
    expect(needsApproval(held, defaultRules)).toMatchObject({ asks: true, why: 'destructive' });
    expect(classOf(held, { ...defaultRules, overrides: { t: 'read' } })).toBe('read');
    const fresh = withHints({ readOnlyHint: true });
    expect(heldToHints(fresh, undefined)).toBe(fresh);
  });
});
