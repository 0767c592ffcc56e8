import { testValkey } from '../../../test/servers/index.ts';
import { storeConformance } from './conformance.suite.js';
import { openValkey } from './valkey.js';

storeConformance('valkey', async () => {
  const url = testValkey();
  return { open: () => openValkey({ url }), dispose: async () => {} };
});
