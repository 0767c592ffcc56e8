import { expect, test } from '@jest/globals';
import { cutToBytes, cutToCodePoints } from './cut-text.js';

test('a text is cut to code points, and says how long it was', () => {
  expect(cutToCodePoints('😀'.repeat(100), 100)).toBe('😀'.repeat(100));
  const cut = cutToCodePoints('😀'.repeat(101), 100);
  expect(cut).toMatch(/^(😀)+\n\[cut here; the whole text is 101 characters long\]$/u);
  expect([...cut]).toHaveLength(100);
});

test.each(['a', '"', '\\', '\n', '\0', 'é', '名', '😀', '\ud83d', '\ude00', 'a\ud83d😀'])(
  'a text of %j fits into its bytes as JSON, without half a character',
  (unit) => {
    const text = unit.repeat(1000);
    for (const budget of [80, 81, 82, 83, 500, 501, 502, 503]) {
      const cut = cutToBytes(text, budget)!;
      expect(Buffer.byteLength(JSON.stringify(cut)) - 2).toBeLessThanOrEqual(budget);
      const kept = cut.slice(0, cut.indexOf('\n[cut here; the whole'));
      expect(text.startsWith(kept)).toBe(true);
      // One more would not have fitted.
      expect(Buffer.byteLength(JSON.stringify(cut)) - 2).toBeGreaterThan(budget - 7);
      if (text.isWellFormed()) expect(kept.isWellFormed()).toBe(true);
    }
  },
);

test('no text fits where the words about the cut do not', () => {
  expect(cutToBytes('x'.repeat(100), 40)).toBeUndefined();
});
