import './global-setup.ts';

/** Stops the servers that the set-up started, and releases those that it was given. */
export default async function tearDown(): Promise<void> {
  await globalThis.holdfastPostgres?.stop();
  globalThis.holdfastPostgres = undefined;
  await globalThis.holdfastValkey?.stop();
  globalThis.holdfastValkey = undefined;
}
