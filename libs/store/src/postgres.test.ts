import { storeConformance } from './conformance.suite.js';
import { openPostgres } from './postgres.js';
import { testDatabase } from '../../../test/servers/index.ts';

storeConformance('postgres', async () => {
  const url = await testDatabase();
  return { open: () => openPostgres({ url }), dispose: async () => {} };
});
