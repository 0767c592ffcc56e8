import config from './jest.config.js';

/** Fleets of processes, proxies and storms: `npm run test:system`. */
export default {
  ...config,
  testMatch: ['<rootDir>/test/**/*.fleet.test.ts'],
  testPathIgnorePatterns: ['/node_modules/', '/dist/'],
};
