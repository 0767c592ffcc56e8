import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isAbsolute, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ensureError, RunError } from '@holdfast/run';
import { isTool, type Tool } from '@holdfast/tools';

/**
 * Loads the tools that modules export: every export that `defineTool` made, and every array of
 * such. A module is a path (from `baseFolder`) or the name of an installed package.
 * TypeScript files are run by stripping their types.
 *
 * @throws RunError `tool-module` naming the file and, where it is one, the export;
 *   `tool-registration` naming a tool defined twice, and where
 */
export async function loadTools(modules: readonly string[], baseFolder: string): Promise<Tool[]> {
  const found = new Map<string, { tool: Tool; place: string }>();
  for (const module of modules) {
    const exported = await importModule(module, baseFolder);
    const tools = Object.entries(exported).flatMap(([name, value]) =>
      toolsOf(value, `${module}, export ${name}`),
    );
    if (tools.length === 0) {
      throw new RunError('tool-module', `${module}: exports no tool; export what defineTool returns`);
    }
    for (const { tool, place } of tools) {
      const { name } = tool.definition;
      const earlier = found.get(name);
      // One tool exported under two names (a default export beside a named one) is one tool.
      if (earlier?.tool === tool) continue;
      if (earlier !== undefined) {
        throw new RunError(
          'tool-registration',
          `tool "${name}" is defined twice: in ${earlier.place} and in ${place}; rename one`,
        );
      }
      found.set(name, { tool, place });
    }
  }
  return [...found.values()].map(({ tool }) => tool);
}

async function importModule(module: string, baseFolder: string): Promise<Record<string, unknown>> {
  try {
    return (await import(locate(module, baseFolder))) as Record<string, unknown>;
  } catch (thrown) {
    if (thrown instanceof RunError) throw thrown;
    const cause = ensureError(thrown);
    throw new RunError('tool-module', `${module}: could not be loaded: ${cause.message}`, { cause });
  }
}

function locate(module: string, baseFolder: string): string {
  if (module.startsWith('file:')) return module;
  const path = resolve(baseFolder, module);
  if (existsSync(path)) return pathToFileURL(path).href;
  if (isAbsolute(module) || module.startsWith('.')) {
    throw new RunError('tool-module', `${module}: there is no such file (looked for ${path})`);
  }
  const from = createRequire(pathToFileURL(resolve(baseFolder, 'package.json')));
  try {
    return pathToFileURL(from.resolve(module)).href;
  } catch (cause) {
    try {
      // A package that has an import-only entry is invisible to require.
      return import.meta.resolve(module);
    } catch {
      throw new RunError(
        'tool-module',
        `${module}: there is no such file (looked for ${path}) and no such package`,
        { cause },
      );
    }
  }
}

function toolsOf(value: unknown, place: string): { tool: Tool; place: string }[] {
  if (isTool(value)) return [{ tool: value, place }];
  if (Array.isArray(value) && value.some(isTool)) {
    return value.flatMap((member, i) => toolsOf(member, `${place}[${i}]`));
  }
  if (typeof value === 'object' && value !== null && 'name' in value && 'run' in value && 'input' in value) {
    throw new RunError('tool-module', `${place}: looks like a tool but was not made by defineTool`);
  }
  return [];
}
