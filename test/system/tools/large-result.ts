/** A tool whose result is as large as it is asked to be. */
import { defineTool } from '@holdfast/tools';
import { z } from 'zod';

export const large = defineTool({
  name: 'large',
  description: 'Return that many letters.',
  input: { bytes: z.number() },
  readOnly: true,
  run: ({ bytes }) => Promise.resolve('x'.repeat(bytes)),
});
