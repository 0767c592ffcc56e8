import config from './jest.config.js';

/** What checks the chart: `npm run helm`, which installs helm first. It needs no server. */
const { globalSetup, globalTeardown, ...rest } = config;

export default {
  ...rest,
  testMatch: ['<rootDir>/test/helm/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  // Helm runs beside Jest, so that two workers keep two cores busy.
  maxWorkers: 2,
};
