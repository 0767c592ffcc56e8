/** `npm test`: unit tests, the stores, and what one process shows. Servers are started once by the global setup. */
const workspace = {
  '^@holdfast/(orders)$': '<rootDir>/examples/$1/src/index.ts',
  '^@holdfast/(standalone)$': '<rootDir>/apps/$1/src/index.ts',
  '^@holdfast/([^/]+)$': '<rootDir>/libs/$1/src/index.ts',
};

export default {
  testMatch: ['<rootDir>/{apps,libs,examples,test}/**/*.test.ts'],
  testPathIgnorePatterns: [
    '/node_modules/',
    '/dist/',
    '<rootDir>/test/slow/',
    '<rootDir>/test/helm/',
    '\\.fleet\\.test\\.ts$',
  ],
  modulePathIgnorePatterns: ['/dist/', '/test/(interop|helm)/node_modules/'],
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: { ...workspace, '^(\\.{1,2}/.*)\\.js$': '$1' },
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          target: 'es2024',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
        },
        module: { type: 'es6' },
      },
    ],
  },
  globalSetup: '<rootDir>/test/servers/global-setup.ts',
  globalTeardown: '<rootDir>/test/servers/global-teardown.ts',
  testTimeout: 60_000,
  reporters: ['default', '<rootDir>/test/support/seconds.js'],
  // System tests wait more than they work: a second worker is worth it on two cores, where Jest takes one.
  maxWorkers: 2,
};
