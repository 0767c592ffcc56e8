import { describe, expect, test } from '@jest/globals';
import { parseJson } from '@holdfast/run';
import { recordUpstreamResult } from './upstream-result.js';

interface Recorded {
  readonly error?: string;
  readonly flaws: readonly string[];
  readonly content: readonly Record<string, unknown>[];
  readonly isError?: boolean;
}

const recorded = (raw: unknown): Recorded => {
  const given = recordUpstreamResult(raw, { resultMode: 'passthrough', maxResultBytes: 4 * 1024 * 1024 });
  if (given.kind === 'malformed') throw new Error(given.problem);
  const { error, flaws, result } = given;
  return { ...(error !== undefined && { error }), flaws, ...(JSON.parse(result) as Omit<Recorded, 'flaws'>) };
};
const good = { type: 'text', text: 'kept', vendor: { a: [1] } };
const text = (value: string): object => ({ type: 'text', text: value });

test('G69: a priority keeps its digits', () => {
  const json = '{"type":"text","text":"x","annotations":{"priority":0.12345678901234567891}}';
  const { result } = recordUpstreamResult(
    { content: [parseJson(json)] },
    { resultMode: 'passthrough', maxResultBytes: 4096 },
  ) as { result: string };
  expect(result).toContain(json);
});

describe('G05: of a result of a call that ran', () => {
  test.each<[string, object, object]>([
    ['annotations null', { ...good, annotations: null }, good],
    ['_meta null', { ...good, _meta: null }, good],
    ['annotations as text', { ...good, annotations: 'x' }, good],
    ['_meta as a list', { ...good, _meta: [1] }, good],
    ['audience "system"', { ...good, annotations: { audience: ['system'], x: 1 } }, { ...good, annotations: { x: 1 } }],
    ['one audience that is known', { ...good, annotations: { audience: ['system', 'user'] } }, { ...good, annotations: { audience: ['user'] } }],
    ['audience as text', { ...good, annotations: { audience: 'user' } }, { ...good, annotations: { audience: ['user'] } }],
    ['a priority out of range', { ...good, annotations: { priority: 7, lastModified: 'today' } }, { ...good, annotations: { lastModified: 'today' } }],
    ['a numeric text', { type: 'text', text: 42, x: 1 }, { type: 'text', text: '42', x: 1 }],
    ['a text of many digits', parseJson('{"type":"text","text":9007199254740993}') as object, text('9007199254740993')],
    ['a text that is an object', { type: 'text', text: { a: 1 } }, text('{"a":1}')],
    ['no text', { type: 'text', text: null }, text('[text block without text]')],
    ['a data: URL', { type: 'image', data: 'data:image/png;base64,AAEC', mimeType: null }, { type: 'image', data: 'AAEC', mimeType: 'image/png' }],
    ['a data: URL with parameters', { type: 'audio', data: 'data:audio/wav;x=1;base64,AAE', mimeType: 'audio/x' }, { type: 'audio', data: 'AAE=', mimeType: 'audio/x' }],
    ['a data: URL in percent-encoding', { type: 'image', data: 'data:image/svg+xml,%3Csvg/%3E', mimeType: 'image/svg+xml' }, { type: 'image', data: 'PHN2Zy8+', mimeType: 'image/svg+xml' }],
    ['URL-safe base64', { type: 'image', data: '-_8', mimeType: 'image/png' }, { type: 'image', data: '+/8=', mimeType: 'image/png' }],
    ['no base64', { type: 'image', data: '!', mimeType: 'image/png' }, text('[image: image/png; its data is not base64]')],
    ['half a base64', { type: 'image', data: 'AAECA', mimeType: 'image/png' }, text('[image: image/png; its data is not base64]')],
    ['no bytes', { type: 'audio', data: null, mimeType: 'audio/wav' }, text('[audio: audio/wav; its data is not base64]')],
    ['bytes of no type', { type: 'image', data: 'AAEC', mimeType: null }, text('[image: of an unknown type; 3 bytes]')],
    ['a link without a name', { type: 'resource_link', uri: 'a:b' }, { type: 'resource_link', uri: 'a:b', name: 'a:b' }],
    ['a link with a title for a name', { type: 'resource_link', uri: 'a:b', title: 'T', name: null, size: null, mimeType: null, description: null }, { type: 'resource_link', uri: 'a:b', title: 'T', name: 'T' }],
    ['a link with hints that are none', { type: 'resource_link', uri: 'a:b', name: 'n', size: 'big', title: 7 }, { type: 'resource_link', uri: 'a:b', name: 'n' }],
    ['a link with icons of many kinds', { type: 'resource_link', uri: 'a:b', name: 'n', icons: [null, { src: 'i', sizes: '48x48 96x96', theme: 'x' }] }, { type: 'resource_link', uri: 'a:b', name: 'n', icons: [{ src: 'i', sizes: ['48x48', '96x96'] }] }],
    ['a link to nowhere', { type: 'resource_link', uri: null, name: 'n' }, text('[resource link: n]')],
    ['a resource with null for a type', { type: 'resource', resource: { uri: 'a:b', text: 't', mimeType: null, _meta: null } }, { type: 'resource', resource: { uri: 'a:b', text: 't' } }],
    ['a resource of a number', { type: 'resource', resource: { uri: 'a:b', text: 7 } }, { type: 'resource', resource: { uri: 'a:b', text: '7' } }],
    ['a resource with a data: URL', { type: 'resource', resource: { uri: 'a:b', blob: 'data:;base64,AAEC' } }, { type: 'resource', resource: { uri: 'a:b', blob: 'AAEC' } }],
    ['a resource of nothing', { type: 'resource', resource: { uri: 'a:b', mimeType: 'x/y' } }, text('[resource: a:b (x/y)]')],
    ['a resource without a URI', { type: 'resource', resource: { text: 't' } }, text('t')],
    ['a resource that is null', { type: 'resource', resource: null }, text('[resource: without a URI]')],
    ['a block without a type', { text: 't' }, text('t')],
    ['a block of no kind', { a: 1 }, text('{"a":1}')],
    ['nesting without end', { type: 'hologram', d: JSON.parse('['.repeat(5_000) + ']'.repeat(5_000)) as object }, text('[hologram: nested deeper than 200 levels]')],
  ])('%s costs that part alone', (_title, block, expected) => {
    const { content, error, flaws, isError } = recorded({ content: [good, block, good] });
    expect(content).toEqual([good, expected, good]);
    expect([error, isError]).toEqual([undefined, undefined]);
    expect(flaws.every((flaw) => flaw.startsWith('content[1]'))).toBe(true);
  }); // prettier-ignore

  test.each<[unknown, object[]]>([
    ['all', [text('all')]],
    [{ type: 'text', text: 'one' }, [text('one')]],
    [7, [text('7')]],
    [
      ['a', null, 7, [1]],
      [text('a'), text('7'), text('[1]')],
    ],
  ])('content %j is read as what it means', (content, expected) => {
    const read = recorded({ content });
    expect([read.content, read.error]).toEqual([expected, undefined]);
    expect(read.flaws).not.toEqual([]);
  });

  test('a result that is no object is its content', () => {
    expect(recorded('done').content).toEqual([text('done')]);
    expect(recorded([good]).content).toEqual([good]);
  });

  test.each([
    ['true', true],
    [' True', true],
    [1, true],
    ['false', undefined],
    [0, undefined],
    ['', undefined],
    [null, undefined],
    [{}, undefined],
  ])('isError %j is read as a flag', (isError, expected) => {
    const read = recorded({ content: [good], isError });
    expect([read.isError, read.content]).toEqual([expected, [good]]);
  });

  test('flaws name their places and quote nothing, ten at most', () => {
    const { flaws } = recorded({
      content: Array(20).fill({ type: 'image', data: 'HIJACK!' }),
      _meta: 'HIJACK',
    });
    expect(flaws).toHaveLength(10);
    expect(flaws[0]).toBe('_meta is not an object');
    expect(flaws.join()).not.toMatch(/HIJACK/);
  });

  test('a part without a flaw is reported by nothing and stays as it is', () => {
    const content = [
      {
        ...good,
        annotations: { audience: ['user'], priority: 1, lastModified: '2025-01-12' },
        _meta: { 'a/b': 1 },
      },
      { type: 'resource_link', uri: 'a:b', name: 'n', icons: [{ src: 'i', sizes: ['any'] }], size: 3 },
      { type: 'resource', resource: { uri: 'a:b', blob: 'AA\nEC', x: 1 } },
      { type: 'tool_use', id: null },
    ];
    const read = recorded({ content });
    expect([read.content, read.flaws]).toEqual([content, []]);
  });
});
