import { registerHooks } from 'node:module';

/**
 * Lets modules anywhere import `@holdfast/tools` and `zod` without installing them: the first
 * resolves to ours, the second to a module's own copy where it has one and to ours otherwise.
 * For the whole process; called once, before tools are loaded.
 */
export function resolveOurPackagesEverywhere(): void {
  registerHooks({
    resolve(specifier, context, next) {
      const fromHere = () => next(specifier, { ...context, parentURL: import.meta.url });
      if (specifier === '@holdfast/tools') return fromHere();
      if (specifier !== 'zod' && !specifier.startsWith('zod/')) return next(specifier, context);
      try {
        return next(specifier, context);
      } catch {
        return fromHere();
      }
    },
  });
}
