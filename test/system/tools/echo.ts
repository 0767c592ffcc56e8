/** Tools that give back what they are told, for tests of what survives the way through the store. */
import { defineTool } from '@holdfast/tools';
import { z } from 'zod';

/** Says UTF-16 units that no JSON text of a host could carry, in every place where a body can say something. */
export const speak = defineTool({
  name: 'speak',
  description: 'Say the given UTF-16 units.',
  input: {
    units: z.array(z.number().int()),
    as: z.enum(['text', 'object', 'content', 'error', 'progress']),
  },
  readOnly: true,
  run({ units, as }, ctx) {
    const text = String.fromCharCode(...units);
    switch (as) {
      case 'text':
        return text;
      case 'object':
        return { [text]: text, list: [text] };
      case 'content':
        return { content: [{ type: 'text', text }], _meta: { text } };
      case 'error':
        throw new Error(text);
      case 'progress':
        ctx.progress(1, 2, text);
        return 'told';
    }
  },
});

export const repeat = defineTool({
  name: 'repeat',
  description: 'Give back the arguments.',
  input: { type: 'object' },
  readOnly: true,
  run: (args) => args,
});

/** Integers that a double cannot hold. */
export const count = defineTool({
  name: 'count',
  description: 'Count further than a double can.',
  input: { as: z.enum(['object', 'array', 'content']) },
  readOnly: true,
  run({ as }) {
    const numbers = {
      big: 1915883588174806058n,
      negative: -9223372036854775808n,
      huge: 10n ** 40n,
      small: 7n,
      fraction: 0.1,
      zero: -0,
      one: 1.0,
    };
    if (as === 'object') return { ...numbers, inner: [{ big: numbers.big }] };
    if (as === 'array') return [numbers.big];
    return {
      content: [{ type: 'text', text: 'counted' }],
      structuredContent: numbers,
      _meta: { 'test/big': numbers.big },
    };
  },
});

export const whoami = defineTool({
  name: 'whoami',
  description: 'Tell who called.',
  input: { note: z.string() },
  readOnly: true,
  run({ note }, ctx) {
    ctx.progress(1, 1, `${ctx.principal?.id} ${note}`);
    return `${ctx.principal?.id} ${note}`;
  },
});
