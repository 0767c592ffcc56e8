import { jest } from '@jest/globals';
import { updates } from './update.suite.ts';

// Services are started anew several times in each test.
jest.setTimeout(90_000);

updates({ callMs: 12_000, drainMs: 5_000, hosts: 10, rounds: 1 });
