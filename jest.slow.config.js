import config from './jest.config.js';

/** What is too long for every run: `npm run test:slow`. */
export default {
  ...config,
  testMatch: ['<rootDir>/test/slow/**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
};
