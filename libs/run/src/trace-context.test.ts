import { expect, test } from '@jest/globals';
import { readTraceContext } from './trace-context.js';

const good = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

test.each([
  [good, 'congo=t61rcWkgMzE,rojo=00f067aa0ba902b7'],
  [good, 'tenant@vendor=a b'],
  [good, 'a=1, b=2'],
  ['cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more', 'a=1'],
])('%s with the state %j is passed on', (traceparent, tracestate) => {
  expect(readTraceContext({ traceparent, tracestate })).toEqual({ traceparent, tracestate });
});

test.each([
  undefined,
  7,
  '',
  good.toUpperCase(),
  `${good}-more`,
  `${good}\n`,
  'ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  '00-00000000000000000000000000000000-00f067aa0ba902b7-01',
  '00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01',
])('F198 %j is not a trace', (traceparent) => {
  expect(readTraceContext({ traceparent, tracestate: 'a=1' })).toBeUndefined();
});

test.each([undefined, 7, '', 'nothing', '=1', 'a=1\r\nX: 1', 'a=é', `a=${'x'.repeat(600)}`])(
  'the state %j is dropped, and the trace kept',
  (tracestate) => {
    expect(readTraceContext({ traceparent: good, tracestate })).toEqual({ traceparent: good });
  },
);
