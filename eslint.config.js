import nx from '@nx/eslint-plugin';
import tseslint from 'typescript-eslint';

const builtins = [
  'node:sqlite',
  'node:http',
  'node:https',
  'node:net',
  'node:fs',
  'node:fs/promises',
  'node:child_process',
];

/** What every library and app may build on. */
const inner = ['type:core', 'type:store'];

export default tseslint.config(
  { ignores: ['**/dist/**', '**/node_modules/**', '.nx/**', 'test/interop/**'] },
  {
    files: ['**/*.ts'],
    extends: [...tseslint.configs.recommended],
    plugins: { '@nx': nx },
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': ['error', { checksVoidReturn: false }],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-console': 'error',
      '@nx/enforce-module-boundaries': [
        'error',
        {
          enforceBuildableLibDependency: false,
          // Tests of a library use the servers and hosts of the system tests, which are no project.
          allow: ['^(\\.\\./)+test/(servers|support|system)/'],
          depConstraints: [
            { sourceTag: 'type:core', onlyDependOnLibsWithTags: ['type:core'] },
            { sourceTag: 'type:store', onlyDependOnLibsWithTags: ['type:core'] },
            { sourceTag: 'type:ops', onlyDependOnLibsWithTags: ['type:core', 'type:store'] },
            { sourceTag: 'type:engine', onlyDependOnLibsWithTags: [...inner, 'type:ops'] },
            { sourceTag: 'type:protocol', onlyDependOnLibsWithTags: [] },
            { sourceTag: 'type:wire', onlyDependOnLibsWithTags: ['type:core', 'type:protocol'] },
            { sourceTag: 'type:rpc', onlyDependOnLibsWithTags: inner },
            {
              sourceTag: 'type:connector',
              onlyDependOnLibsWithTags: [...inner, 'type:ops', 'type:protocol', 'type:wire'],
            },
            { sourceTag: 'type:serving', onlyDependOnLibsWithTags: [...inner, 'type:protocol'] },
            { sourceTag: 'type:gateway', onlyDependOnLibsWithTags: [...inner, 'type:ops', 'type:serving'] },
            { sourceTag: 'type:example', onlyDependOnLibsWithTags: ['type:core'] },
            // No app imports another, and each reaches what its service is there for: the gateway has no way to an upstream.
            { sourceTag: 'app:gateway', onlyDependOnLibsWithTags: [...inner, 'type:ops', 'type:gateway'] },
            {
              sourceTag: 'app:worker',
              onlyDependOnLibsWithTags: [...inner, 'type:ops', 'type:engine', 'type:rpc'],
            },
            {
              sourceTag: 'app:connector',
              onlyDependOnLibsWithTags: [...inner, 'type:ops', 'type:connector', 'type:rpc'],
            },
            { sourceTag: 'app:standalone', notDependOnLibsWithTags: ['type:app'] },
          ],
        },
      ],
    },
  },
  {
    // The core does no I/O and knows no framework.
    files: ['libs/run/src/**/*.ts', 'libs/tools/src/**/*.ts'],
    rules: {
      'no-restricted-imports': ['error', { paths: builtins, patterns: ['@nestjs/*'] }],
      'no-restricted-globals': ['error', 'process', 'fetch', 'setTimeout', 'setInterval'],
    },
  },
  {
    files: ['libs/{protocol,store,engine,connector,connector-rpc,mcp-client,mcp-server,ops}/src/**/*.ts'],
    rules: {
      'no-restricted-imports': ['error', { patterns: ['@nestjs/*'] }],
      'no-restricted-properties': [
        'error',
        { object: 'process', property: 'env', message: 'settings are parsed once, in settings.ts' },
      ],
    },
  },
);
