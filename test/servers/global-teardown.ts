import './global-setup.ts';

/** Stops what the set-up started, or lets go of what it was given. */
export default async function tearDown(): Promise<void> {
  await globalThis.holdfastPostgres?.stop();
  globalThis.holdfastPostgres = undefined;
  await globalThis.holdfastValkey?.stop();
  globalThis.holdfastValkey = undefined;
}
